// What the producer sends, against a server that answers as the test says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createRequire } from "node:module";
import { BatchError, Permanent, Reseq, ReseqError, Worker, memoryStore, orderGuard, redisStore, sqlStore } from "reseq";
import { listening } from "./support/receiver.mjs";

/** A server that records batches; `answer(lines, batch)` returns an answer for each line, or undefined to give none. */
async function server(t, answer) {
  const batches = [];
  const { url, close } = await listening(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const lines = Buffer.concat(chunks).toString().split("\n").map((line) => JSON.parse(line));
    batches.push(lines);
    const answers = answer(lines, batches.length, request);
    if (answers === undefined) return response.destroy();
    if (!Array.isArray(answers)) {
      response.writeHead(answers.status, { "content-type": "application/problem+json" });
      return response.end(JSON.stringify(answers));
    }
    const isStored = answers.some((line) => !line.status);
    response.writeHead(isStored ? 202 : answers[0].status, { "content-type": "application/x-ndjson" });
    response.end(answers.map((line) => JSON.stringify(line)).join("\n"));
  });
  const reseq = new Reseq({ url: new URL(url).origin, token: "secret", backoff: { firstMs: 1, maxMs: 5 } });
  t.after(() => {
    reseq.close();
    return close();
  });
  return { reseq, batches, origin: new URL(url).origin, bodies: () => batches.map((lines) => lines.map(({ body }) => body)) };
}

let sequence = 0;
const stored = ({ destinations, topic }) => ({
  id: "id",
  deliveries: (destinations ?? [topic]).map((destination) => ({ destination, sequence: (sequence += 1), epoch: 1, duplicate: false, durability: "memory" })),
});
const problem = (status, code, retry_after) => ({ status, code, detail: code, retry_after });

test("what is sent in one tick is one batch, in order", async (t) => {
  const { reseq, bodies } = await server(t, (lines) => lines.map(stored));
  await Promise.all([1, 2, 3].map((body) => reseq.send("erp", body)));
  await Promise.all([reseq.send("crm", 4), reseq.publish("all", 5), reseq.send(["erp", "crm"], 6)]);
  assert.deepEqual(bodies(), [[1, 2, 3], [4, 5, 6]]);
});

test("while a batch is on its way, later messages of its destinations wait, and others do not", async (t) => {
  let isFirst = true;
  const { reseq, bodies } = await server(t, (lines) => {
    if (!isFirst) return lines.map(stored);
    isFirst = false;
    return lines.map(() => problem(503, "redis_unavailable", 0.05));
  });
  const first = reseq.send("slow", 1);
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  const later = [reseq.send("slow", 2), reseq.send("fast", 3), reseq.send(["fast", "slow"], 4), reseq.send("fast", 5)];
  await later[1];
  await Promise.all([first, ...later]);
  const flat = bodies().flat();
  // 4 must not overtake 1 and 2, and 5 must not overtake 4.
  assert.deepEqual(flat, [1, 3, 1, 2, 4, 5]);
});

test("a message whose answer was lost is sent again under the same key of its own, before later ones", async (t) => {
  const { reseq, batches } = await server(t, (lines, batch) => (batch === 1 ? undefined : lines.map((line) => ({ ...stored(line), ...duplicate(line) }))));
  const duplicate = ({ body }) => (body === 1 ? { deliveries: [{ destination: "erp", sequence: 9, epoch: 1, duplicate: true, durability: "memory" }] } : {});
  const [receipt] = await Promise.all([reseq.send("erp", 1), new Promise(setImmediate).then(() => reseq.send("erp", 2))]);
  assert.deepEqual(batches.flat().map(({ body }) => body), [1, 1, 2]);
  assert.equal(batches[0][0].idempotency_key, batches[1][0].idempotency_key);
  assert.notEqual(batches[1][0].idempotency_key, batches[1][1].idempotency_key);
  // It is the message of this very call.
  assert.equal(receipt.duplicate, false);
  assert.equal(receipt.sequence, 9);
});

test("with a key of the caller, a duplicate is one", async (t) => {
  const { reseq, batches } = await server(t, (lines) => lines.map((line) => ({ id: "id", deliveries: [{ destination: line.destinations[0], sequence: 3, epoch: 1, duplicate: true, durability: "memory", id: "first" }] })));
  const receipt = await reseq.send("erp", 1, { idempotencyKey: "order-1", key: "acct", headers: { "x-a": "b" }, delayMs: 5, id: "mine" });
  assert.deepEqual([receipt.duplicate, receipt.id], [true, "first"]);
  const { idempotency_key, key, headers, delay_ms, id } = batches[0][0];
  assert.deepEqual([idempotency_key, key, headers, delay_ms, id], ["order-1", "acct", { "x-a": "b" }, 5, "mine"]);
  await reseq.send("erp", 1, { idempotencyKey: false });
  assert.ok(!("idempotency_key" in batches[1][0]));
});

test("a source travels, a skip has no body, and nobody waits for a repeat that is known only by its source", async (t) => {
  const { reseq, batches } = await server(t, (lines) => lines.map((line) => ({ id: "id", deliveries: [{ destination: line.destinations[0], sequence: 0, epoch: 0, duplicate: true, durability: "memory" }] })));
  const source = { name: "orders", position: "0002", after: "0001" };
  const receipt = await reseq.send("erp", 1, { source });
  assert.deepEqual(batches[0][0].source, source);
  assert.equal((await receipt.delivered()).state, "unknown");
  await reseq.send("erp", undefined, { source: { ...source, skip: true } });
  assert.ok(!("body" in batches[1][0]) && batches[1][0].source.skip);
});

test("lines that are refused for a time are sent again in order, after Retry-After", async (t) => {
  const times = [];
  const { reseq, bodies } = await server(t, (lines, batch) => {
    times.push(performance.now());
    return lines.map((line, at) => (batch > 1 || at === 0 ? stored(line) : problem(at === 1 ? 429 : 503, at === 1 ? "backlog_full" : "aborted", at === 1 ? 0.2 : undefined)));
  });
  await Promise.all([1, 2, 3].map((body) => reseq.send("erp", body)));
  assert.deepEqual(bodies(), [[1, 2, 3], [2, 3]]);
  // A timer may fire a millisecond early.
  assert.ok(times[1] - times[0] >= 198, `${times[1] - times[0]} ms`);
});

test("errors have the code of Reseq, and one refused message does not hold up others", async (t) => {
  const { reseq } = await server(t, (lines) => lines.map((line) => (line.body === 2 ? { ...problem(400, "invalid_field"), errors: [{ detail: "no", pointer: "#/key" }], request_id: "r" } : stored(line))));
  const [one, two, three] = await Promise.allSettled([1, 2, 3].map((body) => reseq.send("erp", body)));
  assert.deepEqual([one.status, two.status, three.status], ["fulfilled", "rejected", "fulfilled"]);
  const { reason } = two;
  assert.ok(reason instanceof ReseqError);
  assert.deepEqual([reason.code, reason.status, reason.isTemporary, reason.mayBeStored, reason.errors.length], ["invalid_field", 400, false, false, 1]);
  await assert.rejects(reseq.sendBatch("erp", [{ body: 1 }, { body: 2 }]), (error) => {
    assert.ok(error instanceof BatchError);
    assert.equal(error.results[0].destination, "erp");
    assert.equal(error.results[1].code, "invalid_field");
    return true;
  });
});

test("a request that is refused as a whole is divided to find the message that Reseq refuses", async (t) => {
  const { reseq } = await server(t, (lines) => (lines.some(({ body }) => body === "big") ? problem(413, "body_too_large") : lines.map(stored)));
  const results = await Promise.allSettled(["a", "big", "b"].map((body) => reseq.send("erp", body)));
  assert.deepEqual(results.map(({ status, reason }) => reason?.code ?? status), ["fulfilled", "body_too_large", "fulfilled"]);
});

test("after retryMs the last error comes, and says whether the message may be stored", async (t) => {
  const { reseq } = await server(t, (lines) => lines[0].body === 1 ? undefined : lines.map(() => problem(429, "paused", 0)));
  await assert.rejects(reseq.send("a", 1, { retryMs: 30 }), { code: "no_answer", mayBeStored: true, isTemporary: true });
  await assert.rejects(reseq.send("b", 2, { retryMs: 30 }), { code: "paused", mayBeStored: false });
});

test("an aborted send stops waiting, and what comes behind it goes on", async (t) => {
  const { reseq, bodies } = await server(t, (lines) => lines.map((line) => (line.body === 1 ? problem(429, "backlog_full", 0.02) : stored(line))));
  const abort = new AbortController();
  const first = reseq.send("erp", 1, { signal: abort.signal, retryMs: Infinity });
  const second = reseq.send("erp", 2);
  setTimeout(() => abort.abort(new Error("enough")), 30);
  await assert.rejects(first, /enough/);
  await second;
  await assert.rejects(reseq.send("erp", 3, { signal: AbortSignal.abort(new Error("no")) }), /no/);
  assert.ok(!bodies().flat().includes(3));
});

test("bytes and text with a content type go as they are, and what is no JSON is refused at once", async (t) => {
  const { reseq, batches } = await server(t, (lines) => lines.map(stored));
  await reseq.send("erp", Buffer.from([1, 2]), { contentType: "application/x-thing" });
  await reseq.send("erp", "a;b", { contentType: "text/csv" });
  assert.deepEqual(batches.flat().map(({ body_base64, content_type }) => [body_base64, content_type]), [["AQI=", "application/x-thing"], ["YTti", "text/csv"]]);
  await assert.rejects(reseq.send("erp", undefined), TypeError);
  await assert.rejects(reseq.send("erp", {}, { contentType: "text/plain" }), TypeError);
});

test("a process does not collect messages without limit", async (t) => {
  const { reseq } = await server(t, (lines) => lines.map(stored));
  const small = new Reseq({ url: "http://127.0.0.1:1", waitingMax: 2, retryMs: 10 });
  const results = await Promise.allSettled([1, 2, 3].map((body) => small.send("erp", body)));
  assert.deepEqual(results.map(({ reason }) => reason.code), ["no_answer", "no_answer", "queue_full"]);
  await reseq.send("erp", 1);
});

test("the token goes with each call", async (t) => {
  let authorization;
  const { reseq } = await server(t, (lines, _, request) => ((authorization = request.headers.authorization), lines.map(stored)));
  await reseq.send("erp", 1);
  assert.equal(authorization, "Bearer secret");
});

test("a pod that does not answer is left for the next", async (t) => {
  const { batches, origin } = await server(t, (lines) => lines.map(stored));
  const { url, close } = await listening((_, response) => response.destroy());
  const both = new Reseq({ url: `${new URL(url).origin},${origin}`, backoff: { firstMs: 1 } });
  await both.send("erp", 1);
  assert.equal(batches.length, 1);
  both.close();
  await close();
});

test("clients with the same list of pods begin with different ones", async (t) => {
  const counts = [0, 0, 0];
  const servers = await Promise.all(counts.map((_, at) => listening((_, response) => ((counts[at] += 1), response.end("{}")))));
  t.after(() => Promise.all(servers.map(({ close }) => close())));
  for (let round = 0; round < 60; round += 1) {
    const reseq = new Reseq({ url: servers.map(({ url }) => new URL(url).origin) });
    await reseq.call("GET", "/v1/destinations");
    reseq.close();
  }
  assert.ok(counts.every((count) => count > 0), counts.join());
});

test("while Reseq is down, a send gives up after 10 s by default", async (t) => {
  const { reseq, batches } = await server(t, (lines) => lines.map(() => problem(503, "redis_unavailable", 11)));
  // With more time, it would wait these 11 s.
  await assert.rejects(reseq.send("erp", 1), { code: "redis_unavailable", isTemporary: true });
  assert.equal(batches.length, 1);
  const waiting = reseq.send("erp", 2, { retryMs: 60_000, signal: AbortSignal.timeout(100) });
  await assert.rejects(waiting, { name: "TimeoutError" });
});

test("flush waits for all messages so far, also for those that are refused", async (t) => {
  const { reseq } = await server(t, (lines, batch) => lines.map((line) => (line.body === 2 ? problem(400, "invalid_field") : batch < 3 ? problem(503, "aborted", 0.02) : stored(line))));
  await reseq.flush();
  const settled = [];
  for (const body of [1, 2, 3]) reseq.send("erp", body).then(() => settled.push(body), ({ code }) => settled.push(code));
  await reseq.flush();
  assert.deepEqual(settled.sort(), [1, 3, "invalid_field"]);
});

test("10,000 messages wait at most, and sendBatch sends more all the same", async (t) => {
  const { reseq, bodies } = await server(t, (lines) => lines.map(stored));
  const dead = new Reseq({ url: "http://127.0.0.1:1", retryMs: 0 });
  const codes = await Promise.all(Array.from({ length: 10_001 }, (_, body) => dead.send("erp", body).catch(({ code }) => code)));
  assert.deepEqual([codes[9_999], codes[10_000]], ["no_answer", "queue_full"]);
  const items = Array.from({ length: 10_500 }, (_, body) => ({ body }));
  assert.equal((await reseq.sendBatch("erp", items)).length, 10_500);
  assert.deepEqual(bodies().flat(), items.map(({ body }) => body));
});

test("an option that does not exist is refused with the nearest name", async () => {
  const reseq = new Reseq();
  for (const [make, sentence] of [
    [() => new Reseq({ retryMS: 1 }), /`retryMS` of Reseq \(did you mean `retryMs`\?\), expected one of url, /],
    [() => new Worker("erp", () => 1, { concurency: 4 }), /`concurency` of Worker \(did you mean `concurrency`\?\)/],
    [() => new Worker("erp", () => 1, { lease_ms: 4 }), /did you mean `leaseMs`/],
    [() => orderGuard({ store: memoryStore(), secret: [] }), /did you mean `secrets`/],
    [() => memoryStore({ lanes: 1 }), /did you mean `lanesMax`/],
    [() => redisStore({}, { prefx: "a" }), /did you mean `prefix`/],
    [() => sqlStore({ dialect: "postgres", tabel: "a" }), /did you mean `table`/],
    [() => reseq.send("erp", 1, { idempotency_key: "a" }), /`idempotency_key` of a message \(did you mean `idempotencyKey`\?\)/],
    [() => reseq.sendBatch("erp", [{ body: 1, delay: 5 }]).catch(({ cause }) => Promise.reject(cause)), /did you mean `delayMs`/],
    [() => reseq.consume("erp", { maximum: 5 }).next(), /did you mean `max`/],
    [() => reseq.call("GET", "/v1/topics", undefined, { retry: 5 }), /did you mean `retryMs`/],
  ]) await assert.rejects(async () => make(), (error) => (assert.ok(error instanceof TypeError), assert.match(error.message, sentence), true));
  assert.ok(new Reseq({ token: undefined }));
});

test("an option of BullMQ is refused with the name of ours", async () => {
  const reseq = new Reseq();
  for (const [make, sentence] of [
    [() => reseq.send("erp", 1, { jobId: "order-7" }), /did you mean `idempotencyKey`, which .*, and `id`, by which /],
    [() => reseq.send("erp", 1, { attempts: 5 }), /did you mean `attemptsMax`\?/],
    [() => reseq.send("erp", 1, { backoff: 5 }), /did you mean `backoffMs`\?/],
    [() => reseq.send("erp", 1, { delay: 5 }), /did you mean `delayMs`\?/],
    [() => new Worker("erp", () => 1, { connection: {} }), /`connection` of Worker \(did you mean `url`\?\)/],
    [() => new Worker("erp", () => 1, { lockDuration: 5 }), /did you mean `leaseMs`\?/],
    [() => new Worker("erp", () => 1, { limiter: {} }), /did you mean `transform\.rate_per_second_max` of the destination\?/],
  ]) await assert.rejects(async () => make(), (error) => (assert.ok(error instanceof TypeError), assert.match(error.message, sentence), true));
});

test("a wrong URL and a wrong import get a sentence", async () => {
  for (const url of ["http://reseq:8080/v1", "http://reseq:8080/base/v1/"]) assert.throws(() => new Reseq({ url }), /url must not end in \/v1/);
  const { default: wrong } = await import("reseq");
  for (const use of [() => new wrong(), () => wrong(), () => wrong.send("erp", 1)]) assert.throws(use, /write import \{ Reseq \} from "reseq"/);
});

test("what a program imports and requires are the same classes", () => {
  const required = createRequire(import.meta.url)("reseq");
  assert.ok(new required.Permanent("never") instanceof Permanent);
  assert.ok(new required.ReseqError({ code: "paused", detail: "" }) instanceof ReseqError);
  assert.equal(required.Reseq, Reseq);
});
