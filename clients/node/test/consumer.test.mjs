// Consumers against a real Reseq and a real Redis.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Permanent, Reseq, ReseqError, Retry, orderGuard, sqliteStore } from "reseq";
import { Deployment, until } from "./support/processes.mjs";
import { openSqlite } from "./support/sqlite.mjs";

let deployment;
let reseq;
before(async () => {
  deployment = await Deployment.start();
  reseq = new Reseq({ url: deployment.urls, retryMs: Infinity, backoff: { maxMs: 200 } });
});
after(async () => {
  reseq?.close();
  await deployment?.stop();
});

let count = 0;

/** A destination of its own for a test. */
async function pulled(definition = {}) {
  const name = `pulled-${(count += 1)}`;
  const delivery = { kind: "pull", backoff_ms: 1, backoff_max_ms: 10, ...definition.delivery };
  await reseq.define(name, { ordering: "key", ...definition, delivery });
  return name;
}

const send = (name, all) => Promise.all(all.map(([key, body]) => reseq.send(name, body, { key })));
const isDrained = (name) => until("nothing is pending", async () => (await reseq.stats(name)).pending === 0);

/** Takes this many messages, and accepts all of them. */
async function take(name, many, options) {
  const taken = [];
  for await (const message of reseq.consume(name, options)) {
    taken.push(message);
    if (taken.length < many) continue;
    await message.accept();
    break;
  }
  return taken;
}

test("several loops share the lanes, each in order, and going on accepts", async () => {
  const name = await pulled();
  const all = Array.from({ length: 300 }, (_, number) => [`k${number % 7}`, number]);
  await send(name, all);
  const stop = new AbortController();
  const seen = new Map();
  const holders = new Map();
  const loop = async (number) => {
    for await (const { key, lane, body, attempt, previous } of reseq.consume(name, { signal: stop.signal, max: 1 + number * 20 })) {
      assert.ok(!holders.has(key), "two hold a lane");
      holders.set(key, number);
      assert.deepEqual([lane, attempt, typeof previous], [key, 1, "number"]);
      seen.set(key, [...(seen.get(key) ?? []), body]);
      if (body % 3 === 0) await sleep(1);
      holders.delete(key);
    }
  };
  const loops = [0, 1, 2].map(loop);
  await isDrained(name);
  stop.abort();
  await Promise.all(loops);
  for (let key = 0; key < 7; key += 1) {
    const expected = all.filter(([of]) => of === `k${key}`).map(([, body]) => body);
    assert.deepEqual(seen.get(`k${key}`), expected);
  }
  const { delivered_total: delivered } = await reseq.stats(name);
  assert.equal(delivered, 300);
});

test("break and an error give back, refuse tries again, Permanent ends, bytes stay bytes", async () => {
  const name = await pulled({ on_exhausted: "dead_letter" });
  await send(name, [["a", 1], ["a", 2], ["a", 3]]);
  for await (const { body } of reseq.consume(name)) {
    assert.equal(body, 1);
    break;
  }
  await assert.rejects(async () => {
    for await (const { body, attempt } of reseq.consume(name)) {
      assert.deepEqual([body, attempt], [1, 1], "given back: it counts as no attempt");
      throw new Error("the loop ends");
    }
  }, /the loop ends/);
  const seen = [];
  for await (const message of reseq.consume(name)) {
    seen.push([message.body, message.attempt, message.lastError?.detail]);
    if (message.body === 1 && message.attempt === 1) await message.refuse(new Retry("later", 1));
    if (message.body === 2) await message.refuse(new Permanent("never"));
    if (message.body !== 3) continue;
    await message.accept();
    await message.accept();
    break;
  }
  assert.deepEqual(seen, [[1, 1, undefined], [1, 2, "later"], [2, 1, undefined], [3, 1, undefined]]);
  await isDrained(name);
  const { delivered_total: delivered, dead_letters: dead } = await reseq.stats(name);
  assert.deepEqual([delivered, dead], [2, 1]);

  const url = `${deployment.urls[0]}/v1/destinations/${name}/messages`;
  for (const [type, body] of [["application/json", '{"n": 12345678901234567890}'], ["application/x-thing", Buffer.from([0, 255])]]) {
    await fetch(url, { method: "POST", body, headers: { "content-type": type, "x-tenant": "7" } });
  }
  const [json, bytes] = await take(name, 2);
  assert.equal(json.raw.toString(), '{"n": 12345678901234567890}');
  assert.deepEqual([bytes.body, bytes.contentType, bytes.headers["x-tenant"]], [Buffer.from([0, 255]), "application/x-thing", "7"]);
});

test("a lease is extended while the body runs, and lost when Reseq says so", async () => {
  const name = await pulled({ delivery: { timeout_ms: 600 } });
  await send(name, [["a", 1], ["a", 2]]);
  let other;
  for await (const { body, attempt, signal } of reseq.consume(name)) {
    assert.equal(attempt, 1);
    // Longer than three leases.
    if (body === 1) await sleep(2000);
    assert.ok(!signal.aborted);
    if (body === 1) continue;
    // All pods stand still: the lease cannot be extended.
    deployment.pods[0].child.kill("SIGSTOP");
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    deployment.pods[0].child.kill("SIGCONT");
    [other] = await take(name, 1);
    break;
  }
  assert.deepEqual([other.body, other.attempt], [2, 2]);
  await isDrained(name);
});

test("it goes on through SIGKILL of Reseq and of Redis: nothing is lost, the order stays", async () => {
  const name = await pulled({ delivery: { timeout_ms: 1000 } });
  const stop = new AbortController();
  const seen = new Map();
  const loop = async () => {
    for await (const { key, body, epoch, sequence } of reseq.consume(name, { signal: stop.signal })) {
      seen.set(key, [...(seen.get(key) ?? []), { body, epoch, sequence }]);
      await sleep(2);
    }
  };
  const loops = [loop(), loop()];
  for (let round = 0; round < 3; round += 1) {
    await send(name, Array.from({ length: 60 }, (_, at) => [`k${at % 4}`, round * 60 + at]));
    const victim = round === 1 ? deployment.redis : deployment.pods[0];
    await victim.kill();
    victim.spawn();
    await deployment.ready();
  }
  await isDrained(name);
  stop.abort();
  await Promise.all(loops);
  // If Redis has lost what it had confirmed, it has stamped fewer than were sent, and the gap is not of a consumer.
  const stamped = (await reseq.stats(name)).last_sequence;
  for (const [key, all] of seen) {
    // Without what came again, each lane is complete and in order; what comes again goes back, and never skips.
    let last = -1;
    for (const { body } of all) {
      assert.ok(body <= last + 4 || last === -1, `${key}: ${body} after ${last}; Redis has stamped ${stamped} of 180`);
      last = Math.max(last, body);
    }
    assert.equal(new Set(all.map(({ body }) => body)).size, 45, key);
  }
});

test("what cannot be consumed is thrown", async () => {
  const first = (name) => reseq.consume(name).next();
  await reseq.define("pushed", { url: "http://127.0.0.1:9/" });
  await assert.rejects(first("pushed"), (error) => error instanceof ReseqError && error.code === "wrong_state");
  await assert.rejects(reseq.consume("pushed", { max: 0 }).next(), RangeError);
  await assert.rejects(reseq.consume("pushed", { name: "a b" }).next(), TypeError);
});

test("a consumer waits for a destination that does not exist yet", async () => {
  const name = `pulled-${(count += 1)}`;
  const errors = [];
  const taking = take(name, 1, { onError: (error) => errors.push(error.code) });
  await until("it tells of it", () => errors.length > 0);
  await reseq.define(name, { ordering: "key", delivery: { kind: "pull" } });
  await send(name, [["a", 1]]);
  assert.equal((await taking)[0].body, 1);
  assert.equal(errors[0], "unknown_destination");
});

test("without onError, errors of a consumer go to stderr", async (t) => {
  const printed = t.mock.method(console, "error", () => {});
  const stop = new AbortController();
  const next = reseq.consume("never-made", { signal: stop.signal }).next();
  await until("it is printed", () => printed.mock.callCount() > 0);
  stop.abort();
  assert.equal((await next).done, true);
  assert.match(printed.mock.calls[0].arguments[0], /reseq: unknown_destination/);
});

test("a body that never ends is given up after attemptTimeoutMs, and other consumers take its lanes", async () => {
  const name = await pulled({ delivery: { timeout_ms: 60_000 } });
  const errors = [];
  let isFast = true;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const signals = [];
  const stop = new AbortController();
  const hanging = (async () => {
    for await (const message of reseq.consume(name, { attemptTimeoutMs: 300, signal: stop.signal, onError: (error) => errors.push(error) })) {
      if (isFast) continue;
      signals.push(message.signal);
      await finished;
      stop.abort();
    }
  })();
  // Fast at first, so that the loop takes several messages at once.
  await send(name, Array.from({ length: 20 }, (_, at) => [`k${at % 5}`, at]));
  await isDrained(name);
  isFast = false;
  await send(name, Array.from({ length: 20 }, (_, at) => [`k${at % 5}`, 20 + at]));
  await until("it is given up", () => errors.length > 0);
  assert.match(errors[0].message, /the body of the loop has not ended within 300 ms \(attemptTimeoutMs\)/);
  assert.ok(signals[0].aborted);
  assert.equal(signals[0].reason, errors[0]);
  const taken = await take(name, 20);
  assert.deepEqual(taken.map(({ body }) => body).sort((one, other) => one - other), Array.from({ length: 20 }, (_, at) => 20 + at));
  assert.equal(taken.filter(({ attempt }) => attempt > 1).length, 1);
  finish();
  await hanging;
  await isDrained(name);
});

test("a guard applies what it consumes once, through a lost lease and a repeat", async () => {
  const name = await pulled({ delivery: { timeout_ms: 300 } });
  const file = join(deployment.dir, "consumed.db");
  const database = openSqlite(file);
  database.exec("CREATE TABLE applied (lane TEXT, number INTEGER)");
  const stop = new AbortController();
  const gaps = [];
  let held = 0;
  const guard = orderGuard({ store: sqliteStore(() => database), reseq, onError: () => {}, onGap: (gap) => gaps.push(gap) });
  const loop = () => guard.consume(reseq, name, async ({ key, body, sequence, previous, raw }, tx, { signal }) => {
    assert.deepEqual([JSON.parse(raw), typeof sequence, typeof previous], [body, "number", "number"]);
    tx.prepare("INSERT INTO applied VALUES (?, ?)").run(key, body);
    if (body === 3 && held++ === 0) throw new Error("after the write");
    if (body === 5 && held++ === 1) {
      // The lease is lost while the handler runs: the transaction must not count.
      deployment.pods[0].child.kill("SIGSTOP");
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      deployment.pods[0].child.kill("SIGCONT");
    }
  }, { signal: stop.signal });
  const loops = [loop(), loop()];
  await send(name, Array.from({ length: 12 }, (_, at) => [`k${at % 2}`, at]));
  await isDrained(name);
  // A consumer that could not report: Reseq delivers again what is applied.
  const replayed = await reseq.call("POST", `/v1/destinations/${name}/replay`, { from_sequence: 1, to_sequence: 12 }).catch((error) => error);
  if (!(replayed instanceof Error)) await isDrained(name);
  stop.abort();
  await Promise.all(loops);
  const rows = database.prepare("SELECT lane, number FROM applied ORDER BY rowid").all();
  for (const key of ["k0", "k1"]) {
    const numbers = rows.filter(({ lane }) => lane === key).map(({ number }) => number);
    assert.deepEqual(numbers.slice(0, 6), [0, 2, 4, 6, 8, 10].map((number) => number + Number(key[1])));
  }
  assert.ok(held >= 2 && gaps.length === 0);
});
