// Random faults between the client, a simulated server and a receiver: nothing is lost, nothing applied twice.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { Later, Reseq, ReseqError, Retry, Worker, memoryStore, orderGuard } from "reseq";
import { DELIVERY_FAULTS, deliverAll } from "./support/deliver.mjs";
import { listening } from "./support/receiver.mjs";
import { REQUEST_FAULTS, Simulated } from "./support/simulated.mjs";

const RUNS = Number(process.env.PROPERTY_RUNS ?? 60);

/** Repeats a list of draws; the end of the list is without faults, so that each run ends. */
const drawer = (draws) => {
  let at = 0;
  return () => draws[at++] ?? undefined;
};
const draws = (kinds) => fc.array(fc.option(fc.constantFrom(...kinds), { nil: undefined, freq: 2 }), { maxLength: 60 });

const plan = fc.record({
  messages: fc.integer({ min: 1, max: 30 }),
  concurrency: fc.integer({ min: 1, max: 8 }),
  requests: draws(REQUEST_FAULTS),
  deliveries: draws(DELIVERY_FAULTS),
  expiries: fc.array(fc.boolean(), { maxLength: 30 }),
  handlerMs: fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 8 }),
  handlerFails: fc.array(fc.boolean(), { maxLength: 20 }),
  receiverFails: fc.array(fc.boolean(), { maxLength: 20 }),
  recreatedAfter: fc.option(fc.integer({ min: 1, max: 29 })),
  crashes: fc.array(fc.boolean(), { maxLength: 40 }),
});

/** Runs a plan to its end. Returns what the receiver applied, in order. */
async function run(plan, { isCrashing = false, change } = {}) {
  const server = await new Simulated({ fault: drawer(plan.requests), isExpiring: drawer(plan.expiries) }).start();
  const reseq = new Reseq({ url: server.url, backoff: { firstMs: 2, maxMs: 10 } });
  const applied = [];
  const [handlerFails, receiverFails, crashes] = [plan.handlerFails, plan.receiverFails, plan.crashes].map(drawer);
  let store = memoryStore();
  // After a crash, the receiver remembers nothing.
  const forgetful = { within: (lane, work) => (isCrashing && crashes() && (store = memoryStore()), store.within(lane, work)) };
  const guard = orderGuard({ store: forgetful, onError: () => {} });
  let handled = 0;
  const receive = guard.fetch(async ({ body }) => {
    await pause(plan.handlerMs[handled++ % plan.handlerMs.length]);
    if (receiverFails()) throw new Error("the receiver fails");
    applied.push(body.number);
  });
  const worker = new Worker("erp", async ({ body }) => {
    await pause(plan.handlerMs[handled++ % plan.handlerMs.length]);
    if (handlerFails()) throw new Error("the handler fails");
    return { number: body.number };
  }, { reseq, concurrency: plan.concurrency, leaseMs: 100 });
  worker.on("error", () => {});
  let isOver = false;
  const delivering = deliverAll(server, receive, drawer(plan.deliveries), () => isOver, change);

  const send = async (from, to) => {
    const sendings = [];
    for (let number = from; number < to; number += 1) sendings.push(reseq.send("erp", { number }));
    await Promise.all(sendings);
    while (server.lane.length > 0) await pause(1);
  };
  const part = Math.min(plan.recreatedAfter ?? plan.messages, plan.messages);
  await send(0, part);
  server.recreate();
  await send(part, plan.messages);
  isOver = true;
  await delivering;
  await worker.close();
  reseq.close();
  server.stop();
  return { applied, server };
}

const numbers = (count) => Array.from({ length: count }, (_, number) => number);

test("nothing is lost and nothing is applied twice, whatever is lost, repeated, delayed or reordered", async () => {
  const happened = {};
  await fc.assert(
    fc.asyncProperty(plan, async (plan) => {
      const { applied, server } = await run(plan);
      assert.deepEqual(applied, numbers(plan.messages));
      for (const fault of Object.keys(server.calls.faults)) happened[fault] = (happened[fault] ?? 0) + 1;
    }),
    { numRuns: RUNS, endOnFailure: process.env.PROPERTY_SHRINK === "0" },
  );
  // The plans did make trouble.
  assert.deepEqual(Object.keys(happened).sort(), [...REQUEST_FAULTS].sort());
});

test("a receiver that forgets everything in a crash skips nothing", async () => {
  let repeats = 0;
  await fc.assert(
    fc.asyncProperty(plan, async (plan) => {
      const { applied } = await run(plan, { isCrashing: true });
      assert.deepEqual([...new Set(applied)].sort((one, other) => one - other), numbers(plan.messages));
      repeats += applied.length - plan.messages;
    }),
    { numRuns: RUNS, endOnFailure: process.env.PROPERTY_SHRINK === "0" },
  );
  assert.ok(repeats > 0, "no crash caused a repeat: the faults are too few");
});

// Proves that the properties above detect a guard that compares sequences without epochs.
test("without epochs, messages of a destination that was created again are skipped", { timeout: 60_000 }, async () => {
  const server = await new Simulated().start();
  const applied = [];
  const guard = orderGuard({ store: memoryStore() });
  const receive = guard.fetch(({ sequence }) => void applied.push(sequence));
  const withoutEpochs = (headers) => ({ ...headers, "reseq-epoch": "1" });
  for (let round = 0; round < 2; round += 1) {
    for (const sequence of [1, 2, 3]) {
      const message = { epoch: server.epoch, sequence, id: "x", key: null, state: "ready", output: 1 };
      server.lane.push(message);
    }
    await deliverAll(server, receive, () => undefined, () => server.lane.length === 0, withoutEpochs);
    server.recreate();
  }
  assert.deepEqual(applied, [1, 2, 3]);
  server.stop();
});

test("a worker holds one suspect at a time", async () => {
  const asked = [];
  const returned = [];
  const lease = (sequence) => ({
    token: `t${sequence}`, destination: "erp", sequence, epoch: 1, id: `i${sequence}`, key: null, attempt: 3, suspect: true,
    headers: {}, content_type: "application/json", body: sequence, expires_at: new Date().toISOString(),
  });
  const server = await listening(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString());
    const send = (answer) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    if (request.url === "/v1/leases") {
      asked.push(body.suspects);
      // The second is against what was asked for, as from a call that was under way.
      if (asked.length <= 2) return send({ leases: [lease(asked.length)] });
      await pause(20);
      return send({ leases: [] });
    }
    if (request.url === "/v1/leases/requeue") returned.push(...body.items.map(({ token }) => token));
    send({ results: body.items.map(({ token }) => ({ token, status: "ok" })) });
  });
  const handled = [];
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const worker = new Worker("erp", async ({ body }) => {
    handled.push(body);
    await finished;
    return body;
  }, { url: new URL(server.url).origin });
  while (returned.length === 0 || asked.length < 4) await pause(5);
  assert.deepEqual([handled, returned], [[1], ["t2"]]);
  assert.deepEqual(asked.slice(0, 3), [true, false, false]);
  finish();
  const before = asked.length;
  while (!asked.slice(before).includes(true)) await pause(5);
  await worker.close();
  await server.close();
});

test("a wait that is too long is the longest, and a fraction is one", async () => {
  let header;
  const server = await listening((request, response) => response.writeHead(503, { "retry-after": header }).end("busy"));
  const reseq = new Reseq({ url: new URL(server.url).origin, retryMs: 0 });
  for (const [text, ms] of [["99999999999999999999999", 3_600_000], ["9".repeat(400), 3_600_000], ["1.5", 1500], ["soon", 0]]) {
    header = text;
    const error = await reseq.stats("erp").then(() => assert.fail(), (thrown) => thrown);
    assert.ok(error instanceof ReseqError, error);
    assert.equal(error.retryAfterMs ?? 0, ms, text);
  }
  reseq.close();
  await server.close();
  assert.deepEqual([1e300, -1, NaN, 1.4].map((ms) => new Retry("later", ms).afterMs), [86_400_000, 0, 0, 1]);
});

test("Later takes ms or a text with a unit, and refuses anything else", () => {
  const times = [["30s", 30_000], ["1.5m", 90_000], ["2 h", 7_200_000], ["7d", 86_400_000], [250, 250], [0, 1], [1e300, 86_400_000]];
  for (const [after, ms] of times) assert.equal(new Later(after).afterMs, ms, after);
  for (const bad of ["30", "soon", "-1s", "", -1, NaN, undefined]) assert.throws(() => new Later(bad), /TypeError: Later: .* is no time/, bad);
});
