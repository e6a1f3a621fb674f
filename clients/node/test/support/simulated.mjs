// A server that does what Reseq promises its clients, and nothing more: it stamps, leases, and delivers in order.
// Between it and its clients everything goes wrong: requests and answers are lost, repeated, delayed and reordered,
// leases expire, the destination is created again. `faults` draws what happens to each request.
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

export const REQUEST_FAULTS = ["lost", "answer lost", "twice", "late", "cut", "busy"];

export class Simulated {
  epoch = 1;
  sequence = 0;
  byIdempotencyKey = new Map();
  /** Stamped and not delivered: `{position…, body, state, token, attempt}`, in order. */
  lane = [];
  leases = new Map();
  calls = { total: 0, faults: {} };
  #tokens = 0;

  /** `fault()` returns one of `REQUEST_FAULTS`, or undefined. `isExpiring()` decides whether a lease ends now. */
  constructor({ fault = () => undefined, isExpiring = () => false } = {}) {
    this.fault = fault;
    this.isExpiring = isExpiring;
  }

  async start() {
    this.server = createServer((request, response) => void this.#serve(request, response).catch(() => response.destroy()));
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  stop() {
    this.server.close();
    this.server.closeAllConnections();
  }

  async #serve(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const isPolling = request.url === "/v1/leases";
    const fault = this.fault();
    this.calls.total += 1;
    if (fault) this.calls.faults[fault] = (this.calls.faults[fault] ?? 0) + 1;
    if (fault === "lost") return response.destroy();
    if (fault === "busy") return this.#send(response, 503, { status: 503, code: "redis_unavailable", detail: "later", retry_after: 0 });
    if (fault === "late") {
      // The client believes it lost, and goes on. It is carried out behind what comes meanwhile.
      response.destroy();
      await pause(Math.random() * 30);
      return void this.answer(request.method, request.url, text);
    }
    let answered = this.answer(request.method, request.url, text);
    if (fault === "twice") answered = this.answer(request.method, request.url, text);
    for (let polls = 0; isPolling && answered.body.leases?.length === 0 && polls < 5; polls += 1) {
      await pause(4);
      answered = this.answer(request.method, request.url, text);
    }
    if (fault === "answer lost") return response.destroy();
    this.#send(response, answered.status, answered.body, answered.isLines, fault === "cut");
  }

  #send(response, status, body, isLines = false, isCut = false) {
    const text = isLines ? body.map((line) => JSON.stringify(line)).join("\n") + "\n" : JSON.stringify(body);
    const headers = { "content-type": isLines ? "application/x-ndjson" : "application/json", "content-length": Buffer.byteLength(text) };
    response.writeHead(status, headers);
    if (!isCut) return response.end(text);
    response.write(text.slice(0, text.length / 2), () => response.destroy());
  }

  answer(method, url, text) {
    if (url === "/v1/messages") return { status: 202, isLines: true, body: this.#stamp(text) };
    const asked = JSON.parse(text || "null");
    if (url === "/v1/leases") return { status: 200, body: { leases: this.#claim(asked) } };
    const how = url.split("/").at(-1);
    return { status: 200, body: { results: asked.items.map((item) => this.#report(how, item)) } };
  }

  #stamp(text) {
    return text.split("\n").map((line) => {
      const { body, key = null, idempotency_key: name } = JSON.parse(line);
      const before = name && this.byIdempotencyKey.get(name);
      if (!before) {
        const message = { id: `id-${this.sequence + 1}`, epoch: this.epoch, sequence: ++this.sequence, key, body, attempt: 1, state: "waiting" };
        this.lane.push(message);
        if (name) this.byIdempotencyKey.set(name, message);
      }
      const { id, epoch, sequence } = before ?? this.lane.at(-1);
      return { id, deliveries: [{ destination: "erp", epoch, sequence, duplicate: before !== undefined, durability: "memory" }] };
    });
  }

  #claim({ max }) {
    for (const [token, message] of this.leases) if (this.isExpiring()) this.expire(token, message);
    const leases = this.lane.filter(({ state }) => state === "waiting").slice(0, max);
    // Leases whose answers were lost must end at some time.
    if (leases.length === 0) for (const [token, message] of this.leases) if (!message.isExtended) this.expire(token, message);
    return leases.map((message) => {
      message.state = "processing";
      message.isExtended = true;
      message.token = `token-${(this.#tokens += 1)}`;
      this.leases.set(message.token, message);
      setTimeout(() => (message.isExtended = false), 60).unref();
      const { token, epoch, sequence, id, key, attempt, body } = message;
      return { token, destination: "erp", epoch, sequence, id, key, attempt, body, headers: {}, content_type: "application/json", expires_at: new Date().toISOString() };
    });
  }

  expire(token, message) {
    this.leases.delete(token);
    message.state = "waiting";
    message.attempt += 1;
  }

  #report(how, { token, body, drop }) {
    const message = this.leases.get(token);
    if (!message) {
      const isDone = how === "complete" && this.lane.every((one) => one.token !== token || one.state === "ready") && this.done?.has(token);
      return { token, status: isDone ? "settled" : "stale_lease" };
    }
    if (how === "extend") {
      message.isExtended = true;
      return { token, status: "ok" };
    }
    this.leases.delete(token);
    if (how === "complete") {
      Object.assign(message, { state: "ready", output: drop ? undefined : body, isDropped: drop === true });
      (this.done ??= new Set()).add(token);
    } else {
      message.state = "waiting";
      message.attempt += how === "fail" ? 1 : 0;
    }
    return { token, status: "ok" };
  }

  /** Removes the destination and creates it again: sequences count from 1, in a higher epoch. */
  recreate() {
    this.epoch += 1;
    this.sequence = 0;
  }
}
