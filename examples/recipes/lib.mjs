// What the recipes share: asking Reseq, and receiving from it. Nothing but Node (18 or later).
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

/** The pods; a recipe that several instances take part in goes round them. */
const urls = (process.env.RESEQ_URL ?? "http://127.0.0.1:8080").split(",");
let turn = 0;

/** Asks Reseq. What is refused for a time (429, 503) is asked again, as long as it takes. */
export async function reseq(method, path, body, headers = {}) {
  for (;;) {
    const response = await fetch(urls[turn++ % urls.length] + path, {
      method,
      headers: { "content-type": "application/json", ...headers },
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await response.text();
    if (response.status === 429 || response.status === 503) {
      await pause(5 + Math.random() * 45);
      continue;
    }
    const isLines = response.headers.get("content-type")?.includes("ndjson");
    const answer = isLines ? text.trim().split("\n").map((line) => JSON.parse(line)) : JSON.parse(text);
    if (response.ok) return answer;
    throw Object.assign(new Error(`${method} ${path}: ${answer.status} ${answer.code}: ${answer.detail}`), answer);
  }
}

/**
 * Asks again, at the next pod, for as long as a pod does not answer at all. Only for what may be asked
 * twice: it reads, or it has an idempotency key.
 */
export async function again(ask) {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (error.status) throw error;
      await pause(5 + Math.random() * 45);
    }
  }
}

/** Makes a destination, or changes it. */
export const define = (name, definition) => reseq("PUT", `/v1/destinations/${name}`, definition);

/** Sends a message to a destination; the answer says its place. */
export async function send(destination, body, fields = {}) {
  const answer = await reseq("POST", "/v1/messages", { destinations: [destination], body, ...fields });
  return { id: answer.id, ...answer.deliveries[0] };
}

/** Sends many messages in batches; each item is as for `POST /v1/messages`. */
export async function sendAll(items, size = 1000) {
  for (let from = 0; from < items.length; from += size) {
    let left = items.slice(from, from + size);
    while (left.length > 0) {
      const lines = left.map((item) => JSON.stringify(item)).join("\n");
      const answers = await reseq("POST", "/v1/messages", lines, { "content-type": "application/x-ndjson" });
      const refused = answers.find((answer) => answer.status && answer.status !== 429 && answer.status !== 503);
      if (refused) throw new Error(`${refused.code}: ${refused.detail}`);
      left = left.filter((_, at) => answers[at].status);
    }
  }
}

/**
 * A receiver: calls `take(message)` for each request, one after the other. What it returns is the
 * answer's body (undefined: none); `{status}` refuses. `message` has sequence, previous, epoch, key,
 * id, attempt, headers and body (parsed, if it is JSON).
 */
export async function receiver(take) {
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const header = (name) => request.headers[`reseq-${name}`];
    const text = bytes.toString();
    const message = {
      id: decodeURIComponent(header("id") ?? ""),
      key: header("key") === undefined ? null : decodeURIComponent(header("key")),
      sequence: Number(header("sequence")),
      // Absent: it is not known any more.
      previous: header("previous") === undefined ? null : Number(header("previous")),
      epoch: Number(header("epoch")),
      attempt: Number(header("attempt")),
      headers: request.headers,
      bytes,
      get body() {
        return JSON.parse(text);
      },
    };
    const answer = await take(message);
    response.statusCode = answer?.status ?? 200;
    response.end(answer === undefined || answer.status ? "" : JSON.stringify(answer));
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.closeAllConnections?.() ?? server.close() };
}

/** A worker: leases messages of these destinations and handles up to `max` of them at once, until `stop`. */
export async function worker(destinations, handle, { max = 1, min = 1, leaseMs = 30_000, stop, name } = {}) {
  const running = new Set();
  const isOver = () => stop?.aborted;
  while (!isOver()) {
    const asked = { destinations, min, max: Math.max(min, max - running.size), wait_ms: 1000, lease_ms: leaseMs };
    const { leases } = await reseq("POST", "/v1/leases", asked);
    for (const lease of leases) {
      const work = attempt(lease, handle, name).finally(() => running.delete(work));
      running.add(work);
    }
    if (running.size >= max) await Promise.race(running);
  }
  await Promise.all(running);
}

/** One attempt: what `handle` returns is delivered, `undefined` is dropped, what it throws is tried again. */
async function attempt(lease, handle, name) {
  const item = { token: lease.token };
  try {
    const output = await handle(lease, name);
    const made = output === undefined ? { ...item, drop: true } : { ...item, body: output };
    await reseq("POST", "/v1/leases/complete", { items: [made] });
  } catch (error) {
    const failed = { ...item, error: error.message, final: error.final === true };
    await reseq("POST", "/v1/leases/fail", { items: [failed] });
  }
}

/** Waits until `look` is true, looking often. */
export async function until(what, look, patienceMs = 120_000) {
  const deadline = Date.now() + patienceMs;
  while (!(await look())) {
    if (Date.now() > deadline) throw new Error(`never: ${what}`);
    await pause(10);
  }
}

/** How a destination is. */
export const stats = (name) => reseq("GET", `/v1/destinations/${name}/stats`);

/** Waits until a destination has nothing left to do. */
export const drained = (name) => until(`${name} is drained`, async () => (await stats(name)).pending === 0);

/** What a recipe found, as its last line; then it ends. */
export function done(found) {
  console.log(JSON.stringify(found));
  process.exit(0);
}

export { pause };
