// Shared by the recipes: the client, a receiver, and what a demonstration needs. Run `make build-node` first.
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { Reseq, memoryStore, orderGuard } from "reseq";

/** The client. It calls the pods of RESEQ_URL, and tries again until Reseq answers: pods may restart. */
export const reseq = new Reseq({ retryMs: Infinity });

/**
 * A receiver on a free port. Calls `take(message)` for each message, once and in order. In production, keep the
 * positions where you keep the effects: with `sqlStore`, both are one transaction.
 */
export async function receiver(take, { batch = false, loses = () => false, ...options } = {}) {
  const guard = orderGuard({ store: memoryStore(), ...options });
  const listener = batch ? guard.nodeBatch(take) : guard.node(take);
  const server = createServer((request, response) => {
    // The answer gets lost: Reseq delivers the same messages again.
    if (loses(request)) response.end = () => response.destroy();
    listener(request, response);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}/`, server };
}

/** Waits until `look` returns true. Calls it every 10 ms. */
export async function until(what, look, patienceMs = 120_000) {
  const deadline = Date.now() + patienceMs;
  while (!(await look())) {
    if (Date.now() > deadline) throw new Error(`never: ${what}`);
    await pause(10);
  }
}

/** Waits until a destination has no pending messages. */
export const drained = (name) => until(`${name} is drained`, async () => (await reseq.stats(name)).pending === 0);

/** All items of a list. */
export async function listed(path, filters) {
  const items = [];
  for await (const item of reseq.list(path, filters)) items.push(item);
  return items;
}

/** Prints the result of a recipe as its last line, and exits. */
export function done(found) {
  console.log(JSON.stringify(found));
  process.exit(0);
}

export { pause };
