// The worker against a real Reseq and a real Redis.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { DROP, KEEP, Later, Output, Permanent, REQUEUE, Reseq, ResultError, Retry, Worker } from "reseq";
import { z } from "zod";
import { Deployment, until } from "./support/processes.mjs";
import { recorder } from "./support/receiver.mjs";

let deployment;
let reseq;
before(async () => {
  deployment = await Deployment.start();
  reseq = new Reseq({ url: deployment.urls });
});
after(async () => {
  reseq?.close();
  await deployment?.stop();
});

let count = 0;

/** A destination of its own for a test, with a receiver and a worker that end with the test. */
async function scene(t, handler, { definition = {}, ...options } = {}) {
  const name = `test-${(count += 1)}`;
  const receiver = await recorder();
  await reseq.define(name, { url: receiver.url, ...definition, transform: { kind: "worker", backoff_ms: 10, backoff_max_ms: 20, ...definition.transform } });
  const events = [];
  const worker = new Worker(name, handler, { reseq, ...options });
  for (const event of ["active", "completed", "failed", "stalled", "error", "drained", "progress", "log"]) {
    worker.on(event, (...args) => events.push([event, ...args]));
  }
  t.after(async () => {
    await worker.close();
    await receiver.close();
  });
  const happened = (event) => events.filter(([its]) => its === event);
  return { name, worker, events, happened, receiver, bodies: () => receiver.got.map(({ text }) => JSON.parse(text)) };
}

test("outputs arrive in the order of the messages, however long each takes", async (t) => {
  const { name, bodies } = await scene(t, async ({ body }) => {
    await pause((body.number * 7) % 20);
    return { ...body, done: true };
  });
  const sendings = Array.from({ length: 200 }, (_, number) => reseq.send(name, { number }));
  await Promise.all(sendings.map((sending) => sending.delivered()));
  assert.deepEqual(bodies(), Array.from({ length: 200 }, (_, number) => ({ number, done: true })));
});

test("undefined is a TypeError at once that says what to write, and the handler runs once", async (t) => {
  let runs = 0;
  const { name, happened } = await scene(t, () => void (runs += 1), { definition: { on_exhausted: "dead_letter" } });
  const { state } = await reseq.send(name, {}).delivered();
  assert.equal(state, "dead_lettered");
  await until("the failure is reported", () => happened("failed").length === 1);
  const [, , error, exhausted] = happened("failed")[0];
  assert.ok(error instanceof TypeError);
  assert.match(error.message, /KEEP.*DROP/);
  assert.equal(exhausted, "dead_lettered");
  assert.equal(runs, 1);
});

test("where delivery.kind is none, a handler may return nothing, and only there", async (t) => {
  let lookUps = 0;
  const call = reseq.call.bind(reseq);
  reseq.call = (...args) => ((lookUps += 1), call(...args));
  t.after(() => delete reseq.call);
  const posted = [];
  const { name, happened } = await scene(t, ({ body }) => void posted.push(body), { definition: { delivery: { kind: "none" }, url: undefined, ordering: "none" } });
  const before = lookUps;
  const sendings = Array.from({ length: 50 }, (_, number) => reseq.send(name, number));
  const outcomes = await Promise.all(sendings.map((sending) => sending.delivered()));
  assert.ok(outcomes.every(({ state }) => state === "delivered"));
  assert.equal(posted.length, 50);
  assert.equal(happened("failed").length, 0);
  assert.equal(lookUps, before + 1, "the definition is asked for once");
});

test("a schema makes the body what it returns, and a bad body a permanent failure", async (t) => {
  const Order = z.object({ net: z.number(), at: z.coerce.date() });
  const { name, bodies, happened } = await scene(t, ({ body }) => ({ year: body.at.getUTCFullYear(), net: body.net }), { schema: Order, definition: { on_exhausted: "dead_letter" } });
  const sendings = [{ net: 1, at: "2026-11-21" }, { net: "1", at: "2026-11-21" }, { net: 2, at: "2025-01-01" }].map((body) => reseq.send(name, body));
  const outcomes = await Promise.all(sendings.map((sending) => sending.delivered()));
  assert.deepEqual(outcomes.map(({ state }) => state), ["delivered", "dead_lettered", "delivered"]);
  assert.deepEqual(bodies(), [{ year: 2026, net: 1 }, { year: 2025, net: 2 }]);
  assert.equal(happened("failed").length, 1, "no further attempt");
  assert.match(happened("failed")[0][2].message, /^the body does not fit the schema: net: .*number/);
});

test("the API shows which worker holds a message, and until when", async (t) => {
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  // However the test ends, the handler must too: its worker waits for it.
  t.after(() => finish("done"));
  const { name, worker, happened } = await scene(t, () => finished, { name: "enricher@host-7:1", leaseMs: 60_000 });
  assert.equal(worker.name, "enricher@host-7:1");
  const before = Date.now();
  const sending = await reseq.send(name, 1);
  await until("it is being handled", () => happened("active").length === 1);
  const { state, lease } = await reseq.message(name, sending.sequence);
  assert.deepEqual([state, lease.worker], ["processing", "enricher@host-7:1"]);
  const expiresAt = Date.parse(lease.expires_at);
  assert.ok(expiresAt >= before + 60_000 && expiresAt <= Date.now() + 60_000, lease.expires_at);
  assert.deepEqual((await reseq.call("GET", `/v1/destinations/${name}/why`)).head?.lease, lease);
  for await (const listed of reseq.list(`/v1/destinations/${name}/messages`)) assert.deepEqual(listed.lease, lease);
  finish("done");
  await sending.delivered();

  // Without a name, it tells the host, the process and the worker.
  const workers = [0, 1].map(() => new Worker(name, () => KEEP, { reseq }));
  for (const { name: own } of workers) assert.match(own, new RegExp(`^[A-Za-z0-9._-]{1,40}:${process.pid}:\\d+$`));
  assert.notEqual(workers[0].name, workers[1].name);
  await Promise.all(workers.map((one) => one.close()));
  for (const wrong of ["", "a b", "ä", "x".repeat(65), 7]) assert.throws(() => new Worker(name, () => KEEP, { reseq, name: wrong }), TypeError);
});

test("KEEP delivers the bytes as they came, DROP nothing, an Output other bytes", async (t) => {
  const { name, receiver } = await scene(t, ({ body, raw }) => {
    if (body?.number) return Buffer.isBuffer(raw) && KEEP;
    if (body === "drop") return DROP;
    if (body === "csv") return new Output("a;b", "text/csv");
    return KEEP;
  });
  const post = (body, type) => fetch(`${deployment.urls[0]}/v1/destinations/${name}/messages`, { method: "POST", body, headers: { "content-type": type } });
  // A number that JavaScript cannot hold, white space, and an escape that it would write in another way.
  const text = '{ "number": 12345678901234567890,\t"a": "\\u0041" }';
  await post(text, "application/json");
  await post('"drop"', "application/json");
  await post('"csv"', "application/json");
  await post(Buffer.from([0, 255, 7]), "application/x-thing");
  await post('{"x":1}', "application/vnd.x+json");
  await until("all are delivered", () => receiver.got.length === 4);
  const got = receiver.got.map(({ raw, headers }) => [raw.toString("latin1"), headers["content-type"]]);
  assert.deepEqual(got, [
    [text, "application/json"],
    ["a;b", "text/csv"],
    ["\u0000\u00ff\u0007", "application/x-thing"],
    ['{"x":1}', "application/vnd.x+json"],
  ]);
});

test("what is thrown is tried again, Retry says when, Permanent ends it", async (t) => {
  const { name, happened } = await scene(
    t,
    ({ body, attempt }) => {
      if (body === "poison") throw new Permanent("never");
      if (attempt === 1) throw new Error("not yet");
      if (attempt === 2) throw new Retry("a little later", 5);
      return { attempt };
    },
    { definition: { on_exhausted: "dead_letter" } },
  );
  const outcomes = await Promise.all(["good", "poison"].map((body) => reseq.send(name, body).delivered()));
  assert.deepEqual(outcomes.map(({ state }) => state), ["delivered", "dead_lettered"]);
  assert.deepEqual(happened("failed").map(([, , { message }]) => message).sort(), ["a little later", "never", "not yet"]);
});

test("a job that takes longer than three leases runs once", async (t) => {
  let runs = 0;
  const { name, happened } = await scene(t, async () => {
    runs += 1;
    await pause(3300);
    return { runs };
  }, { leaseMs: 1000 });
  assert.equal((await reseq.send(name, 1).delivered()).state, "delivered");
  assert.equal(runs, 1);
  assert.deepEqual(happened("stalled"), []);
});

test("a handler whose lease is lost is aborted, and its output is not reported", async (t) => {
  let aborted = 0;
  const { name, happened } = await scene(t, async (_, { signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    aborted += 1;
    return "too late";
  }, { leaseMs: 300 });
  const { sequence } = await reseq.send(name, 1);
  await until("it is being handled", () => happened("active").length === 1);
  // Cancelled while it is processed: the lease ends, and with it the need for the output.
  await reseq.call("DELETE", `/v1/destinations/${name}?force=true`);
  await until("it is aborted", () => aborted === 1);
  assert.equal(happened("stalled").length, 1);
  assert.equal(happened("stalled")[0][1].sequence, sequence);
  await pause(20);
  assert.equal(happened("completed").length, 0);
});

test("a checkpoint is there in the next attempt, and REQUEUE counts as none", async (t) => {
  const seen = [];
  const { name } = await scene(t, async ({ checkpoint, attempt }, context) => {
    seen.push([checkpoint, attempt]);
    await context.checkpoint({ page: seen.length });
    return seen.length < 3 ? REQUEUE : { pages: seen.length };
  });
  await reseq.send(name, 1).delivered();
  assert.deepEqual(seen, [[null, 1], [{ page: 1 }, 1], [{ page: 2 }, 1]]);
});

test("Later, thrown or returned, comes back each time as the first attempt", async (t) => {
  const attempts = [];
  const { name, happened } = await scene(t, ({ attempt }) => {
    attempts.push(attempt);
    if (attempts.length > 12) return { polls: attempts.length };
    if (attempts.length % 2) throw new Later(1);
    return new Later("1ms");
  }, { definition: { transform: { attempts_max: 1 } } });
  const sending = await reseq.send(name, 1);
  assert.equal((await sending.delivered()).state, "delivered");
  assert.deepEqual([attempts, happened("failed")], [Array(13).fill(1), []]);
});

test("a message that waits for Later says so and until when", async (t) => {
  const { name, happened } = await scene(t, () => new Later("1h"));
  const { sequence } = await reseq.send(name, 1);
  await until("it waits", async () => (await reseq.stats(name)).delayed === 1);
  const { asked_later, due_at, attempts } = await reseq.message(name, sequence);
  assert.deepEqual([asked_later, attempts, happened("failed")], [{ times: 1, until: due_at }, 0, []]);
  const inMs = new Date(due_at) - Date.now();
  assert.ok(inMs > 3_000_000 && inMs < 4_200_000, due_at);
});

test("close returns at once what has not begun and finishes the rest", async (t) => {
  const begun = [];
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  let isFast = true;
  const { name, worker, bodies } = await scene(t, async ({ body }) => {
    begun.push(body.number);
    if (!isFast) await finished;
    return body;
  }, { concurrency: 2, leaseMs: 600_000 });
  // Fast at first, so that the worker leases ahead.
  await Promise.all(Array.from({ length: 100 }, (_, number) => reseq.send(name, { number }).delivered()));
  isFast = false;
  await Promise.all(Array.from({ length: 50 }, (_, number) => reseq.send(name, { number: 100 + number })));
  await until("two have begun", () => begun.length === 102);
  const stats = () => reseq.stats(name);
  await until("more are leased than have begun", async () => (await stats()).processing > 2);
  const closing = worker.close();
  await until("the others wait again", async () => (await stats()).processing === 2);
  finish();
  await closing;
  assert.equal(begun.length, 102);
  assert.equal((await stats()).waiting, 48);
  // The leases were for ten minutes: nobody could wait for them.
  const second = new Worker(name, ({ body }) => body, { reseq });
  await until("the second worker has finished", () => bodies().length === 150);
  await second.close();
  assert.deepEqual(bodies().map(({ number }) => number), Array.from({ length: 150 }, (_, number) => number));
});

test("closing a worker that waits strands no message", async (t) => {
  const { name, worker } = await scene(t, () => KEEP, { leaseMs: 600_000 });
  await worker.close();
  let handled = 0;
  for (let round = 0; round < 30; round += 1) {
    const one = new Worker(name, () => ((handled += 1), KEEP), { reseq, leaseMs: 600_000 });
    // The claim and the message meet at all times of a call.
    const sending = pause(round % 7).then(() => reseq.send(name, round));
    await pause(round % 5);
    await Promise.all([one.close(), sending]);
  }
  const last = new Worker(name, () => ((handled += 1), KEEP), { reseq });
  await until("nothing is left", async () => (await reseq.stats(name)).pending === 0, 30_000);
  await last.close();
  assert.equal(handled, 30);
});

test("an output that Reseq refuses ends its message and no other", async (t) => {
  const { name, happened, bodies } = await scene(t, ({ body }) => (body === "big" ? "x".repeat(2 << 20) : body), { definition: { on_exhausted: "dead_letter" } });
  const outcomes = await Promise.all(["one", "big", "two"].map((body) => reseq.send(name, body).delivered()));
  assert.deepEqual(outcomes.map(({ state }) => state), ["delivered", "dead_lettered", "delivered"]);
  assert.deepEqual(bodies(), ["one", "two"]);
  assert.equal(happened("failed").length, 1);
});

test("neither a missing listener nor one that throws stops the worker", async (t) => {
  const printed = t.mock.method(console, "error", () => {});
  const receiver = await recorder();
  const name = `test-${(count += 1)}`;
  // The destination does not exist yet: an error without a listener.
  const worker = new Worker(name, ({ body, attempt }) => {
    if (attempt === 1) throw new Error("once");
    return body;
  }, { reseq });
  for (const event of ["active", "failed", "completed"]) {
    worker.on(event, () => {
      throw new Error(`the listener of ${event}`);
    });
    worker.on(event, async () => {
      throw new Error(`the asynchronous listener of ${event}`);
    });
  }
  await until("the missing destination is printed", () => printed.mock.callCount() > 0);
  await reseq.define(name, { url: receiver.url, transform: { kind: "worker", backoff_ms: 10 } });
  assert.equal((await reseq.send(name, 7).delivered()).state, "delivered");
  await worker.close();
  await receiver.close();
  const lines = printed.mock.calls.map(({ arguments: [line] }) => line);
  assert.ok(lines.some((line) => line.includes("unknown_destination")), lines.join("\n"));
  assert.ok(lines.some((line) => line.includes("the listener of active")), lines.join("\n"));
});

test("progress, log and drained are reported", async (t) => {
  const { name, happened } = await scene(t, (message, { progress, log }) => {
    progress(0.5);
    log(`message ${message.sequence}`);
    return KEEP;
  });
  await reseq.send(name, 1).delivered();
  await until("it is drained", () => happened("drained").length === 1);
  assert.deepEqual(happened("progress").map(([, , value]) => value), [0.5]);
  assert.deepEqual(happened("log").map(([, , text]) => text), ["message 1"]);
});

test("a handler in threads computes at the same time, saves checkpoints, fails and ends", async (t) => {
  const module = new URL("./support/thread-handler.mjs", import.meta.url);
  const { name, bodies, happened } = await scene(t, module, { concurrency: 2, definition: { on_exhausted: "dead_letter", transform: { attempts_max: 3 } } });
  const tasks = [{ task: "sum", to: 1000 }, { task: "permanent" }, { task: "exit-once" }, { task: "checkpoint" }, { task: "later" }, { task: "keep" }, { task: "thread" }, { task: "thread" }];
  const outcomes = await Promise.all(tasks.map((task) => reseq.send(name, task).delivered()));
  assert.deepEqual(outcomes.map(({ state }) => state), ["delivered", "dead_lettered", ...Array(6).fill("delivered")]);
  const [sum, exited, saved, later, kept, one, other] = bodies();
  assert.deepEqual([sum, exited, saved, kept], [{ sum: 500500 }, { attempt: 2 }, { checkpoint: { at: 1 } }, { task: "keep" }]);
  assert.deepEqual(later, { attempt: 1, checkpoint: { at: 2 } });
  assert.ok(one.thread > 0 && other.thread > 0);
  assert.match(happened("failed").map(([, , { message }]) => message).join(), /the thread of the handler ended/);
});

test("send waits for the output, or says why there is none", async (t) => {
  const definition = { ordering: "none" };
  const handler = ({ body }) => {
    if (body === "bad") throw new Permanent("no such tax");
    if (body === "gone") return DROP;
    return body === "bytes" ? new Output(Buffer.from([255]), "a/b") : { total: body };
  };
  const { name } = await scene(t, handler, { definition });
  const send = (body, more) => reseq.send(name, body, { waitFor: "processed", ...more });
  const receipt = await send(7);
  assert.deepEqual(receipt.output, { total: 7 });
  assert.deepEqual([receipt.destination, receipt.duplicate], [name, false]);
  assert.deepEqual((await send("bytes")).output, Buffer.from([255]));
  const all = await Promise.all(Array.from({ length: 100 }, (_, n) => send(n)));
  assert.deepEqual(all.map(({ output }) => output.total), Array.from({ length: 100 }, (_, n) => n));
  await assert.rejects(send("bad"), (error) => error instanceof ResultError && error.state === "failed" && /no such tax/.test(error.message));
  await assert.rejects(send("gone"), { name: "ResultError", state: "dropped" });
  await assert.rejects(send(1, { waitMs: 0, delayMs: 60_000 }), { state: "pending" });
  await assert.rejects(send(1, { delayMs: 60_000, signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  await assert.rejects(reseq.send([name], 1, { waitFor: "processed" }), TypeError);
  await assert.rejects(reseq.send(name, 1, { waitFor: "delivered" }), TypeError);
});

test("a message has its own attempts, and is found by its id", async (t) => {
  let calls = 0;
  const handler = () => {
    calls += 1;
    throw new Error("no");
  };
  const { name } = await scene(t, handler, {});
  const { id, sequence } = await reseq.send(name, 1, { attemptsMax: 2, backoffMs: 1 });
  await until("it is halted", async () => (await reseq.message(name, { id })).state === "halted");
  assert.equal(calls, 2);
  const found = await reseq.find(id);
  assert.deepEqual(found.map((one) => [one.destination, one.message.sequence]), [[name, sequence]]);
  assert.equal(await reseq.message(name, { id: "nothing" }), undefined);
  await assert.rejects(reseq.send(name, 1, { attemptsMax: 11 }), { code: "invalid_field" });
});

test("a handler that never ends is given up after attemptTimeoutMs, and its lane goes on", async (t) => {
  const reasons = [];
  const late = [];
  const { name, happened, bodies } = await scene(t, async ({ body, attempt }, { signal, checkpoint }) => {
    if (body !== "hang" || attempt > 1) return body;
    signal.addEventListener("abort", () => {
      reasons.push(signal.reason);
      checkpoint(1).catch((error) => late.push(error));
    });
    return new Promise(() => {});
  }, { concurrency: 1, leaseMs: 60_000, attemptTimeoutMs: 300 });
  await Promise.all(["hang", "next"].map((body) => reseq.send(name, body).delivered()));
  assert.deepEqual(bodies(), ["hang", "next"]);
  const [[, message, error, exhausted]] = happened("failed");
  assert.deepEqual([message.body, error.name, exhausted], ["hang", "TimeoutError", null]);
  assert.match(error.message, /the handler neither finished nor saved a checkpoint.* within 300 ms \(attemptTimeoutMs\)/);
  assert.deepEqual([reasons, late], [[error], [error]]);
});

test("a checkpoint and progress begin attemptTimeoutMs again, and 0 is no limit", async (t) => {
  const slow = async (_, { checkpoint, progress }) => {
    for (let step = 0; step < 4; step += 1) {
      await pause(900);
      if (step % 2) await checkpoint(step);
      else progress(step);
    }
    return "done";
  };
  for (const attemptTimeoutMs of [3000, 0]) {
    const { name, bodies, happened } = await scene(t, slow, { attemptTimeoutMs });
    await reseq.send(name, 1).delivered();
    assert.deepEqual([bodies(), happened("failed")], [["done"], []]);
  }
  assert.throws(() => new Worker("erp", () => KEEP, { reseq, attemptTimeoutMs: -1 }), RangeError);
});

test("an attempt that Reseq ends is given up, and is not reported again", async (t) => {
  const reasons = [];
  const { name, happened, bodies } = await scene(t, ({ body, attempt }, { signal }) => {
    if (body !== "hang" || attempt > 1) return body;
    signal.addEventListener("abort", () => reasons.push(signal.reason));
    return new Promise(() => {});
  }, { concurrency: 1, leaseMs: 600, attemptTimeoutMs: 0, definition: { transform: { attempt_ms_max: 1000 } } });
  await Promise.all(["hang", "next"].map((body) => reseq.send(name, body).delivered()));
  assert.deepEqual(bodies(), ["hang", "next"]);
  const [[, message, error, exhausted], ...others] = happened("failed");
  assert.deepEqual([message.body, error.name, exhausted, others], ["hang", "TimeoutError", null, []]);
  assert.match(error.message, /the attempt has failed.* within 1000 ms \(transform\.attempt_ms_max\)/);
  assert.deepEqual([reasons, happened("stalled")], [[error], []]);
});

test("a thread that never ends is replaced after attemptTimeoutMs", async (t) => {
  const module = new URL("./support/hanging-handler.mjs", import.meta.url);
  const definition = { on_exhausted: "dead_letter", transform: { attempts_max: 1 } };
  const { name, happened } = await scene(t, module, { concurrency: 1, attemptTimeoutMs: 500, definition });
  const outcomes = await Promise.all(["hang", "next"].map((body) => reseq.send(name, body).delivered()));
  assert.deepEqual(outcomes.map(({ state }) => state), ["dead_lettered", "delivered"]);
  assert.match(happened("failed")[0][2].message, /attemptTimeoutMs/);
});

test("while the module of a thread cannot be imported, nothing is leased", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "reseq-module-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "handler.mjs");
  const { name, happened, bodies } = await scene(t, pathToFileURL(file), { concurrency: 2, definition: { transform: { attempts_max: 1 } } });
  const sendings = await Promise.all([1, 2, 3].map((body) => reseq.send(name, body)));
  await until("an error tells of it", () => happened("error").length > 0);
  assert.match(happened("error")[0][1].message, /the module of the handler cannot be imported: .*handler\.mjs/);
  const { waiting, processing } = await reseq.stats(name);
  assert.deepEqual([waiting, processing, happened("active")], [3, 0, []]);
  // It comes with a later deployment.
  copyFileSync(fileURLToPath(new URL("./support/hanging-handler.mjs", import.meta.url)), file);
  await Promise.all(sendings.map((sending) => sending.delivered()));
  assert.deepEqual(bodies(), [1, 2, 3]);
});

test("if a later thread cannot import the module, its message goes back without a failed attempt", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "reseq-module-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "handler.mjs");
  const source = fileURLToPath(new URL("./support/hanging-handler.mjs", import.meta.url));
  copyFileSync(source, file);
  const { name, happened, bodies } = await scene(t, pathToFileURL(file), { concurrency: 1, attemptTimeoutMs: 400, definition: { transform: { attempts_max: 2 } } });
  await reseq.send(name, 1).delivered();
  // On a slow machine, the first attempt may have taken too long.
  const before = happened("failed").length;
  rmSync(file);
  // Its thread ends, and no other can take its place.
  const sendings = await Promise.all(["hang", 2].map((body) => reseq.send(name, body)));
  await until("an error tells of it", () => happened("error").length > 0);
  assert.equal(happened("failed").length, before + 1);
  copyFileSync(source, file);
  await until("the other is processed", async () => (await reseq.message(name, sendings[1].sequence)).state === "ready");
  assert.ok(happened("failed").slice(before).every(([, { body }]) => body === "hang"));
  assert.deepEqual(bodies(), [1]);
});

/** A process whose handler never ends, and that closes on signals. */
async function closing(t, options) {
  const name = `test-${(count += 1)}`;
  await reseq.define(name, { ordering: "none", delivery: { kind: "none" }, transform: { kind: "worker" } });
  await reseq.send(name, 1);
  const script = fileURLToPath(new URL("./support/closing-worker.mjs", import.meta.url));
  const child = spawn(process.execPath, [script, name, JSON.stringify({ url: deployment.urls[0], ...options })], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  const ended = once(child, "exit");
  await once(child.stdout, "data");
  return { child, ended };
}

test("with closeOn, a second signal ends the process at once", async (t) => {
  const { child, ended } = await closing(t, {});
  child.kill("SIGINT");
  // npm passes on what the terminal has sent already: this is not a second Ctrl-C.
  child.kill("SIGINT");
  await pause(800);
  assert.equal(child.exitCode, null);
  child.kill("SIGINT");
  assert.deepEqual(await ended, [130, null]);
});

test("closeOn has a time limit", async (t) => {
  const { child, ended } = await closing(t, { closeMs: 200 });
  child.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
});
