// What the recipes share: asking Reseq, and receiving from it. Nothing but Node (18 or later).
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

/** The pods; a recipe that several instances take part in goes round them. */
const urls = (process.env.RESEQ_URL ?? "http://127.0.0.1:8080").split(",");
let turn = 0;

/**
 * Asks Reseq until the answer is known. What is refused for a time (429, 503) is asked again, and so is
 * what was not answered (Reseq restarts, a connection breaks), at the next pod. So everything that is
 * asked here may be asked twice: `send` and `sendAll` see to it that nothing is sent twice.
 */
export async function reseq(method, path, body, headers = {}) {
  for (;;) {
    const answer = await ask(method, path, body, headers);
    if (answer?.ok) return answer.read;
    const { read: problem, status } = answer ?? {};
    if (problem && !temporary.includes(status)) {
      throw Object.assign(new Error(`${method} ${path}: ${status} ${problem.code}: ${problem.detail}`), problem);
    }
    await pause(5 + Math.random() * 45);
  }
}

const temporary = [429, 502, 503, 504];

/** Asks once; undefined if there is no answer, or none that can be read. */
async function ask(method, path, body, headers) {
  try {
    const response = await fetch(urls[turn++ % urls.length] + path, {
      method,
      headers: { "content-type": "application/json", ...headers },
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await response.text();
    const isLines = response.headers.get("content-type")?.includes("ndjson");
    const read = isLines ? text.trim().split("\n").map((line) => JSON.parse(line)) : JSON.parse(text);
    return { ok: response.ok, status: response.status, read };
  } catch {
    return undefined;
  }
}

/** Makes a destination, or changes it. */
export const define = (name, definition) => reseq("PUT", `/v1/destinations/${name}`, definition);

/**
 * Sends a message to a destination; the answer says its place. With an idempotency key, its own or a new
 * one: if the answer is lost it is sent again, and is the same message.
 */
export async function send(destination, body, fields = {}) {
  const item = { destinations: [destination], body, idempotency_key: randomUUID(), ...fields };
  const answer = await reseq("POST", "/v1/messages", item);
  return { id: answer.id, ...answer.deliveries[0] };
}

/** Sends many messages in batches; each item is as for `POST /v1/messages`. */
export async function sendAll(items, size = 1000) {
  for (let from = 0; from < items.length; from += size) {
    let left = items.slice(from, from + size).map((item) => ({ idempotency_key: randomUUID(), ...item }));
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
 * True if a message comes behind another in the order of their lane. A sequence alone does not tell: a
 * destination that was removed and made again counts from 1 again, in a higher epoch.
 */
export const isBehind = (one, other) =>
  one.epoch > other.epoch || (one.epoch === other.epoch && one.sequence > other.sequence);

/** Before all messages. */
export const start = { epoch: 0, sequence: 0 };

/** The place of a message, as it is kept with what was done: it never names two messages. */
export const placeOf = ({ epoch, sequence }) => ({ epoch, sequence });

/**
 * Tells what comes for the first time from what comes again, where there is no order to compare places
 * by. In life the places stand where the effects stand, and are written in one transaction with them.
 */
export function firstTimes() {
  const places = new Set();
  return ({ destination, epoch, sequence }) => {
    const place = `${destination} ${epoch} ${sequence}`;
    return !places.has(place) && places.add(place) !== undefined;
  };
}

/**
 * A receiver: calls `take(message)` for each request, one after the other. What it returns is the
 * answer's body (undefined: none); `{status}` refuses. `message` has destination, sequence, previous, epoch,
 * key, id, attempt, headers and body (parsed, if it is JSON).
 */
export async function receiver(take) {
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const header = (name) => request.headers[`reseq-${name}`];
    const text = bytes.toString();
    const message = {
      destination: header("destination"),
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

/** What `handle` of a worker returns for a message that is not to be delivered. */
export const drop = Symbol("drop");

/**
 * A worker: leases messages of these destinations and handles up to `max` of them at once, until `stop`.
 *
 * `handle(message, signal)` returns what is delivered, or `drop`; what it throws is tried again, unless
 * the error says `final: true`. It may take as long as it likes: the lease is extended meanwhile. When
 * the lease is somebody else's all the same, `signal` is aborted and what is returned counts for nothing.
 */
export async function worker(destinations, handle, { max = 1, min = 1, leaseMs = 30_000, stop } = {}) {
  const running = new Set();
  while (!stop?.aborted) {
    const asked = { destinations, min, max: Math.max(min, max - running.size), wait_ms: 1000, lease_ms: leaseMs };
    for (const lease of await leased(asked)) {
      const work = attempt(lease, handle, leaseMs).finally(() => running.delete(work));
      running.add(work);
    }
    if (running.size >= max) await Promise.race(running);
  }
  await Promise.all(running);
}

/** Leases, if there are any. One of the destinations may be gone just now, to be made again. */
export async function leased(asked) {
  try {
    return (await reseq("POST", "/v1/leases", asked)).leases;
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    await pause(500);
    return [];
  }
}

/** One attempt. Only a failure of the work itself is reported as one. */
async function attempt(lease, handle, leaseMs) {
  const { token } = lease;
  const held = hold([token], leaseMs);
  let done;
  try {
    const output = await handle(lease, held.signal);
    done = output === drop ? { token, drop: true } : { token, body: asJson(output) };
  } catch (error) {
    done = failure(token, error);
  }
  // Until Reseq has said what became of it: finished work is not thrown away because an answer was lost.
  try {
    if (held.signal.aborted) return;
    await settle(done.error === undefined ? "complete" : "fail", done);
  } catch (problem) {
    // Reseq never takes this output (it is too long, say): another attempt would not help.
    const failed = failure(token, Object.assign(problem, { final: true }));
    await settle("fail", failed).catch(({ message }) => console.error(message));
  } finally {
    held.release();
  }
}

const settle = (how, item) => reseq("POST", `/v1/leases/${how}`, { items: [item] });

const failure = (token, error) => {
  console.error(`an attempt failed: ${error?.message}`);
  return { token, error: String(error?.message ?? error) || "failed", final: error?.final === true };
};

/** What is not JSON would be no body at all: a mistake of the handler, which no further attempt mends. */
function asJson(output) {
  if (JSON.stringify(output) !== undefined) return output;
  const what = output === undefined ? "nothing" : `a ${typeof output}`;
  throw Object.assign(new Error(`the handler returned ${what}; it must return JSON, or drop`), { final: true });
}

/** Extends leases until `release()`; aborts `signal` when one is somebody else's. */
export function hold(tokens, leaseMs) {
  const lost = new AbortController();
  let isAsking = false;
  const timer = setInterval(async () => {
    if (isAsking) return;
    isAsking = true;
    const items = tokens.map((token) => ({ token, lease_ms: leaseMs }));
    try {
      const { results } = await reseq("POST", "/v1/leases/extend", { items });
      if (results.some(({ status }) => status === "stale_lease")) lost.abort();
    } catch ({ message }) {
      console.error(message);
    }
    isAsking = false;
  }, leaseMs / 3);
  return { signal: lost.signal, release: () => clearInterval(timer) };
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
