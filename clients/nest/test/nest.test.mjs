// The module in a Nest application, with a real Reseq: the example of the README, compiled and started.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Reseq } from "reseq";
import { Deployment, until } from "../../node/test/support/processes.mjs";
import { recorder } from "../../node/test/support/receiver.mjs";

const folder = fileURLToPath(new URL("..", import.meta.url));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const example = /<!-- file: app.ts -->\n\n```ts\n(.*?)\n```/s.exec(readFileSync(join(folder, "README.md"), "utf8"))[1];
let deployment;
let project;
let reseq;
let receiver;

before(async () => {
  execFileSync(process.execPath, [tsc, "--project", join(folder, "tsconfig.json")], { stdio: "inherit" });
  project = mkdtempSync(join(tmpdir(), "reseq-nest-"));
  symlinkSync(dirname(dirname(dirname(tsc))), join(project, "node_modules"));
  deployment = await Deployment.start();
  reseq = new Reseq({ url: deployment.urls });
  receiver = await recorder();
  await reseq.define("invoices", { url: receiver.url, ordering: "key", transform: { kind: "worker", backoff_ms: 10 } });
  await reseq.define("mails", { delivery: { kind: "none" }, ordering: "none", transform: { kind: "worker" } });
});
after(async () => {
  reseq?.close();
  await receiver?.close();
  await deployment?.stop();
  rmSync(project, { recursive: true, force: true });
});

/** Compiles a program as users do. Returns what the compiler says. */
function compile(name, code) {
  writeFileSync(join(project, `${name}.ts`), code);
  const args = [tsc, "--strict", "--skipLibCheck", "--module", "commonjs", "--target", "es2022", "--types", "node", "--experimentalDecorators", "--emitDecoratorMetadata", `${name}.ts`];
  return spawnSync(process.execPath, args, { cwd: project, encoding: "utf8" }).stdout;
}

/** Starts a compiled program. */
function start(name) {
  const child = spawn(process.execPath, [`${name}.js`], { cwd: project });
  const program = { child, said: "", ended: once(child, "exit") };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (program.said += text));
  return program;
}

const here = (code) => code.replaceAll("http://127.0.0.1:8080", deployment.urls[0]);

test("the application of the README works on messages, and ends with a signal", async () => {
  assert.equal(compile("app", here(example)), "");
  const program = start("app");
  await Promise.all([1, 2, 3].map((net) => reseq.send("invoices", { id: `order-${net}`, net }, { key: "ann" }).delivered()));
  assert.deepEqual(receiver.got.map(({ text }) => JSON.parse(text).gross), [1.2, 2.4, 3.5999999999999996]);
  await until("the mails are sent", async () => (await reseq.stats("mails")).delivered_total === 3);
  for (const order of [1, 2, 3]) assert.match(program.said, new RegExp(`mail for order-${order}`));
  program.child.kill("SIGTERM");
  assert.deepEqual(await program.ended, [null, "SIGTERM"], "as Nest ends: by the signal");
});

test("when the application closes, what has begun finishes, before what it needs is closed", async () => {
  const code = example.replace("return { ...body,", 'console.log("began"); await new Promise((resolve) => setTimeout(resolve, 500)); console.log("ended");\n    return { ...body,').replace(
    "constructor(private", 'onApplicationShutdown() { console.log("database closed"); }\n\n  constructor(private');
  assert.equal(compile("slow", here(code)), "");
  const program = start("slow");
  const sending = reseq.send("invoices", { id: "order-9", net: 9 }, { key: "bob" }).delivered();
  await until("it has begun", () => program.said.includes("began"));
  program.child.kill("SIGTERM");
  await program.ended;
  assert.equal((await sending).state, "delivered");
  assert.match(program.said, /began[^]*ended[^]*database closed/);
});

test("failures go to the logger, a forgotten return does not compile, and a request scope is refused", async () => {
  assert.match(compile("forgotten", example.replace("return { ...body", "void { ...body")), /TS1241|TS2345|not assignable/);
  assert.equal(compile("scoped", here(example.replace("@Injectable()", "@Injectable({ scope: 2 })"))), "");
  const scoped = start("scoped");
  assert.notEqual((await scoped.ended)[0], 0);
  assert.match(scoped.said, /Invoices.invoice is a ReseqWorker, but Invoices is made anew for each request/);
  assert.equal(compile("failing", here(example.replace("return { ...body,", 'if (body.net < 0) throw new Error("a negative amount");\n    return { ...body,'))), "");
  const failing = start("failing");
  await reseq.send("invoices", { id: "order-10", net: -1 }, { key: "cem" });
  await until("the logger has it", () => /\[Reseq\].*Invoices.invoice: invoices\/\d+: a negative amount/.test(failing.said));
  failing.child.kill("SIGKILL");
});

test("the package has its licence and what it names", () => {
  const files = JSON.parse(execFileSync("npm", ["pack", "--ignore-scripts", "--dry-run", "--json"], { cwd: folder, encoding: "utf8" }))[0].files.map(({ path }) => path).sort();
  assert.deepEqual(files, ["LICENSE", "README.md", "dist/index.d.ts", "dist/index.js", "package.json"]);
});
