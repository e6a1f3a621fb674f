// Shared by the recipes: calls to Reseq, a receiver, and a worker. Needs only Node (20 or newer).
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

/** The pods. Calls go to them in turn. */
const urls = (process.env.RESEQ_URL ?? "http://127.0.0.1:8080").split(",");
let turn = 0;

/**
 * Calls Reseq until it answers. Repeats a call that is refused temporarily (429, 503) or that gets no
 * answer (Reseq restarts, a connection breaks), at the next pod. So Reseq may get a call twice; `send` and
 * `sendAll` use idempotency keys so that no message is stored twice.
 */
export async function reseq(method, path, body, headers = {}) {
  for (;;) {
    const answer = await ask(method, path, body, headers);
    if (answer?.ok) return answer.read;
    const { read, status } = answer ?? {};
    // A batch of which nothing was stored has the status of its first line.
    const problem = Array.isArray(read) ? read[0] : read;
    if (problem && !temporary.includes(status)) {
      throw Object.assign(new Error(`${method} ${path}: ${status} ${problem.code}: ${problem.detail}`), problem);
    }
    await pause(5 + Math.random() * 45);
  }
}

const temporary = [429, 502, 503, 504];

/** Calls once. Returns undefined if there is no answer, or none that can be read. */
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

/** Creates or changes a destination. */
export const define = (name, definition) => reseq("PUT", `/v1/destinations/${name}`, definition);

/**
 * Sends a message to a destination. Returns its id, epoch and sequence. Uses the given idempotency key or a
 * new one, so a message that is sent again because the answer was lost is stored only once.
 */
export async function send(destination, body, fields = {}) {
  const item = { destinations: [destination], body, idempotency_key: randomUUID(), ...fields };
  const answer = await reseq("POST", "/v1/messages", item);
  return { id: answer.id, ...answer.deliveries[0] };
}

/** Sends many messages in batches. Each item has the fields of `POST /v1/messages`. */
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
 * True if a position comes after another in its lane. Compares the epoch first, because a destination that
 * was removed and created again counts from 1 again, in a higher epoch.
 */
export const isBehind = (one, other) =>
  one.epoch > other.epoch || (one.epoch === other.epoch && one.sequence > other.sequence);

/** The position before all messages. */
export const start = { epoch: 0, sequence: 0 };

/** The position of a message, to store with its effects. No two messages have the same one. */
export const placeOf = ({ epoch, sequence }) => ({ epoch, sequence });

/**
 * Recognises repeats where there is no order: returns a function that is true for the first delivery of a
 * message. In production, store the positions with the effects, in one transaction.
 */
export function firstTimes() {
  const places = new Set();
  return ({ destination, epoch, sequence }) => {
    const place = `${destination} ${epoch} ${sequence}`;
    return !places.has(place) && places.add(place) !== undefined;
  };
}

/**
 * A receiver. Calls `take(message)` for each request. `take` returns the body of the answer, undefined for
 * none, or `{status}` to refuse. `message` has destination, sequence, previous, epoch, key, id, attempt,
 * headers and body (parsed JSON).
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
      // The header is absent if Reseq does not know the message before.
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

/** Returned by `handle` of a worker to deliver nothing for a message. */
export const drop = Symbol("drop");

/**
 * A worker. Leases messages of these destinations and handles up to `max` of them at once, until `stop`.
 *
 * `handle(message, signal)` returns the output to deliver, or `drop`. If it throws, the message is tried
 * again, unless the error has `final: true`. It may take any time: the lease is extended meanwhile. If the
 * lease is lost anyway, `signal` is aborted, and the output is ignored.
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

/** Requests leases. Returns none if a destination does not exist at the moment. */
export async function leased(asked) {
  try {
    return (await reseq("POST", "/v1/leases", asked)).leases;
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    await pause(500);
    return [];
  }
}

/** One attempt. Reports only failures of the work itself as failures. */
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
  // Repeats until Reseq confirms, so that a lost answer does not lose finished work.
  try {
    if (held.signal.aborted) return;
    await settle(done.error === undefined ? "complete" : "fail", done);
  } catch (problem) {
    // Reseq refuses this output for good, for example because it is too long: retrying would not help.
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

/** Fails for good if the output is not JSON: this is a mistake of the handler, and retrying would not help. */
function asJson(output) {
  if (JSON.stringify(output) !== undefined) return output;
  const what = output === undefined ? "nothing" : `a ${typeof output}`;
  throw Object.assign(new Error(`the handler returned ${what}; it must return JSON, or drop`), { final: true });
}

/** Extends leases until `release()`. Aborts `signal` when another worker has one of them. */
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

/** Waits until `look` returns true. Calls it every 10 ms. */
export async function until(what, look, patienceMs = 120_000) {
  const deadline = Date.now() + patienceMs;
  while (!(await look())) {
    if (Date.now() > deadline) throw new Error(`never: ${what}`);
    await pause(10);
  }
}

/** All items of a list, page by page. */
export async function listed(path) {
  const items = [];
  let cursor = "";
  do {
    const page = await reseq("GET", `${path}?limit=1000${cursor}`);
    items.push(...page.items);
    cursor = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : "";
  } while (cursor);
  return items;
}

/** The stats of a destination. */
export const stats = (name) => reseq("GET", `/v1/destinations/${name}/stats`);

/** Waits until a destination has no pending messages. */
export const drained = (name) => until(`${name} is drained`, async () => (await stats(name)).pending === 0);

/** Prints the result of a recipe as its last line, and exits. */
export function done(found) {
  console.log(JSON.stringify(found));
  process.exit(0);
}

export { pause };
