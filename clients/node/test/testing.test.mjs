// reseq/testing: a Reseq for the tests of a program.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Permanent, Retry, Worker } from "reseq";
import { startReseq } from "reseq/testing";
import { reseqProgram } from "./support/processes.mjs";

const HOUR = 3_600_000;
const program = reseqProgram();
let service;
let receive = () => {};
before(async () => {
  service = await startReseq({ program, receive: (delivery) => receive(delivery) });
});
beforeEach(() => {
  receive = () => {};
  return service.clear();
});
after(() => service?.stop());

const numbers = (destination) => service.deliveries(destination).map(({ body }) => body.number);

test("drain waits for what is on its way, with its retries, and deliveries are known once", async (t) => {
  const { reseq } = service;
  await reseq.define("invoices", { url: service.receiverUrl, ordering: "key", transform: { kind: "worker", backoff_ms: 50 } });
  await reseq.define("other", { url: service.receiverUrl });
  let failures = 3;
  const worker = new Worker("invoices", ({ body }) => {
    if ((failures -= 1) >= 0) throw new Error("not yet");
    return body;
  }, { reseq });
  t.after(() => worker.close());
  receive = ({ attempt }) => {
    if (attempt === 1) throw new Error("once more");
  };
  await reseq.sendBatch("invoices", Array.from({ length: 30 }, (_, number) => ({ body: { number }, key: `key ${number % 3}` })));
  await reseq.send("other", { number: 7 });
  await service.drain();
  assert.deepEqual(numbers("other"), [7]);
  for (let key = 0; key < 3; key += 1) assert.deepEqual(numbers("invoices").filter((number) => number % 3 === key), Array.from({ length: 10 }, (_, at) => at * 3 + key));
  assert.equal(service.deliveries().length, 31);
});

test("advance makes due what would be due by then, and nothing else", async () => {
  const { reseq } = service;
  await reseq.define("free", { url: service.receiverUrl, ordering: "none" });
  await reseq.define("keyed", { url: service.receiverUrl, ordering: "key" });
  await reseq.sendBatch("free", [{ body: { number: 1 }, delayMs: HOUR }, { body: { number: 2 }, delayMs: 3 * HOUR }, { body: { number: 3 } }]);
  await reseq.sendBatch("keyed", [{ body: { number: 1 }, key: "a", delayMs: HOUR }, { body: { number: 2 }, key: "a" }, { body: { number: 3 }, key: "a", delayMs: 2 * HOUR }, { body: { number: 4 }, key: "b" }]);
  await service.drain();
  assert.deepEqual([numbers("free"), numbers("keyed")], [[3], [4]]);
  await service.advance(HOUR);
  await reseq.send("free", { number: 4 }, { delayMs: HOUR });
  await service.drain();
  assert.deepEqual([numbers("free"), numbers("keyed")], [[3, 1], [4, 1, 2]], "what was sent later waits for its whole delay");
  await service.advance(HOUR);
  await service.drain();
  assert.deepEqual([numbers("free"), numbers("keyed")], [[3, 1, 4], [4, 1, 2, 3]]);
  await service.advance(HOUR);
  await service.drain();
  assert.deepEqual(numbers("free"), [3, 1, 4, 2]);
});

test("a retry that waits for long begins with the clock", async (t) => {
  const { reseq } = service;
  await reseq.define("polls", { url: service.receiverUrl, ordering: "none", transform: { kind: "worker" } });
  const worker = new Worker("polls", ({ attempt }) => {
    if (attempt < 4) throw new Retry("later", HOUR);
    return { number: attempt };
  }, { reseq });
  t.after(() => worker.close());
  await reseq.send("polls", {});
  await service.advance(5 * HOUR);
  await service.drain();
  assert.deepEqual(numbers(), [4]);
});

test("drain says what does not leave and why, and leaves what is halted", async (t) => {
  const { reseq } = service;
  await reseq.define("invoices", { url: service.receiverUrl, ordering: "key", transform: { kind: "worker" } });
  await reseq.send("invoices", { number: 1 }, { key: "a b" });
  await assert.rejects(service.drain({ timeoutMs: 200 }), /after 200 ms, invoices\/1 is waiting: .*worker/);
  const worker = new Worker("invoices", ({ body }) => {
    if (body.number === 1) throw new Permanent("wrong");
    return body;
  }, { reseq });
  t.after(() => worker.close());
  await reseq.send("invoices", { number: 2 }, { key: "a b" });
  await reseq.send("invoices", { number: 3 }, { key: "b" });
  await service.drain();
  assert.deepEqual(numbers(), [3]);
  assert.equal((await reseq.stats("invoices")).halted, 1);
});

test("the program is found in the package reseq-server, and its absence or failure is said", async () => {
  const project = mkdtempSync(join(tmpdir(), "reseq-testing-"));
  const modules = join(project, "node_modules");
  mkdirSync(join(modules, "reseq-server/bin"), { recursive: true });
  symlinkSync(fileURLToPath(new URL("..", import.meta.url)), join(modules, "reseq"));
  writeFileSync(join(project, "test.mjs"), 'import { startReseq } from "reseq/testing";\nconst service = await startReseq({ config: process.argv[2] });\nconsole.log(service.url);\nawait service.stop();\n');
  const { RESEQ_BIN, ...env } = process.env;
  const run = (...args) => spawnSync(process.execPath, ["test.mjs", ...args], { cwd: project, env, encoding: "utf8" });
  assert.match(run().stderr, /npm install --save-dev reseq-server, or set RESEQ_BIN/);
  writeFileSync(join(modules, "reseq-server/package.json"), "{}");
  const launcher = join(modules, "reseq-server/bin/reseq.js");
  writeFileSync(launcher, `const child = require("child_process").spawn(${JSON.stringify(program)}, process.argv.slice(2), { stdio: "inherit" });
process.on("SIGTERM", () => child.kill());\nchild.on("exit", (code) => process.exit(code ?? 1));\n`);
  chmodSync(launcher, 0o755);
  const found = run();
  assert.match(found.stdout, /^http:\/\/127.0.0.1:\d+\n$/, found.stderr);
  assert.match(run("[nonsense]\nit = 1").stderr, /reseq did not start: .*nonsense/s);
  rmSync(project, { recursive: true });
});
