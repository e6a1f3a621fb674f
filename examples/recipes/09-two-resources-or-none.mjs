// Some resources, and many takers that each need two at once: take two or none, work, return them. No
// taker holds one while it waits for another, so there is no deadlock. When a taker dies, nothing is lost.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/09-two-resources-or-none.mjs
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { done, pause, reseq, until } from "./lib.mjs";

const resources = Number(process.env.RESOURCES ?? 10);
const takers = Number(process.env.TAKERS ?? 20);
const takes = Number(process.env.TAKES ?? 20);
const leaseMs = Number(process.env.LEASE_MS ?? 3000);

/**
 * Takes two, or none, for as long as `leaseMs`. A `Worker` would extend the leases and complete the messages; here they
 * are held and returned, so this calls the API itself.
 */
async function takeTwo() {
  const asked = { destinations: ["resources"], min: 2, max: 2, wait_ms: 20_000, lease_ms: leaseMs };
  for (;;) {
    const { leases } = await reseq.call("POST", "/v1/leases", asked);
    if (leases.length > 0) return leases;
  }
}

/** Returns them unchanged. A taker that kept them for longer than its lease gets `stale_lease`. */
const giveBack = (leases) => reseq.call("POST", "/v1/leases/requeue", { items: leases.map(({ token }) => ({ token })) });

// A taker that dies while it holds two.
if (process.argv[2] === "dying") {
  process.send(await takeTwo());
  await new Promise(() => setInterval(() => {}, 60_000));
}

// A resource is a message that takers lease and return again and again. Nothing is delivered. Takers that
// die must not use it up: stalls_max 0. Each exists once, and can be added again after it was used up:
// idempotency_window_ms 0.
await reseq.define("resources", {
  delivery: { kind: "none" },
  ordering: "none",
  transform: { kind: "worker", stalls_max: 0 },
  idempotency_window_ms: 0,
});
for (let at = 0; at < resources; at += 1) {
  await reseq.send("resources", { name: `resource ${at}` }, { idempotencyKey: `resource ${at}` });
}

const held = new Map();
const found = { takes: 0, most: 0, shared: 0, tooEarly: 0, stale: 0, errors: 0 };

/** Records who has it, and whether another taker still had it. */
function note(lease, holder) {
  const before = held.get(lease.sequence);
  if (before?.diesAt > Date.now()) found.tooEarly += 1;
  if (before && !before.diesAt) found.shared += 1;
  held.set(lease.sequence, holder);
  found.most = Math.max(found.most, held.size);
}

async function taker(number) {
  for (let take = 0; take < takes; take += 1) {
    const two = await takeTwo();
    two.forEach((lease) => note(lease, { number }));
    if (new Set(two.map(({ sequence }) => sequence)).size !== 2) found.shared += 1;
    try {
      await pause(Math.random() * 4);
      if (take % 5 === 4) throw new Error("the action went wrong");
      found.takes += 1;
    } catch {
      found.errors += 1;
    }
    two.forEach(({ sequence }) => held.delete(sequence));
    const { results } = await giveBack(two);
    found.stale += results.filter(({ status }) => status !== "ok").length;
  }
  return number;
}

// One taker is killed while it holds two; the others continue with the rest.
const child = fork(fileURLToPath(import.meta.url), ["dying"]);
const taken = await new Promise((resolve) => child.on("message", resolve));
child.kill("SIGKILL");
taken.forEach((lease) => note(lease, { diesAt: Date.parse(lease.expires_at) }));
const through = await Promise.all(Array.from({ length: takers }, (_, number) => taker(number)));
const all = async (free) => (await reseq.stats("resources")).waiting === free;
await until("the dead one's two are there again", () => all(resources));
held.clear();

// One is used up for good: it is completed instead of returned. An odd number is left.
const [used, other] = await takeTwo();
await reseq.call("POST", "/v1/leases/complete", { items: [{ token: used.token, drop: true }] });
await giveBack([other]);
const start = Date.now();
await Promise.all(Array.from({ length: takers }, (_, number) => taker(number)));
const oddMs = Date.now() - start;
await until("all are back but the one that was used up", () => all(resources - 1));

done({ ...found, through: through.length, left: resources - 1, oddMs });
