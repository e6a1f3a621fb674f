// The package as users get it: packed, installed into an empty project, and the examples of the README as pasted.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { CODES } from "reseq";
import { ESLint } from "eslint";
import ts from "typescript";
import tseslint from "typescript-eslint";
import { Deployment, freePort, reseqProgram } from "./support/processes.mjs";

const folder = fileURLToPath(new URL("..", import.meta.url));
const root = join(folder, "../..");
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const modules = dirname(dirname(dirname(tsc)));

/** The examples of a page: the code that follows `<!-- file: NAME -->`. */
function examplesOf(page) {
  const found = readFileSync(page, "utf8").matchAll(/<!-- file: (\S+) -->\n\n```\w+\n(.*?)\n```/gs);
  return Object.fromEntries([...found].map(([, name, code]) => [name, code]));
}

const examples = examplesOf(join(folder, "README.md"));
let deployment;
let project;

before(async () => {
  deployment = await Deployment.start();
  project = mkdtempSync(join(tmpdir(), "reseq-user-"));
  const packed = execFileSync("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", project], { cwd: folder, encoding: "utf8" }).trim();
  const bytes = statSync(join(project, packed)).size;
  console.log(`${packed}: ${bytes} bytes`);
  assert.ok(bytes < 200_000, `the package has ${bytes} bytes`);
  writeFileSync(join(project, "package.json"), '{"name": "user", "private": true}');
  // There is nothing to fetch: the package has no dependencies.
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--silent", join(project, packed)], { cwd: project });
});
after(async () => {
  await deployment?.stop();
  rmSync(project, { recursive: true, force: true });
});

/** Puts code of the README into the project, with this Reseq and a free port for the receiver, which it returns. */
async function write(name, code) {
  const port = await freePort();
  writeFileSync(join(project, name), code.replaceAll("http://127.0.0.1:8080", deployment.urls[0]).replaceAll("9001", String(port)));
  return port;
}

/**
 * What a program of the project printed. Its receiver has a connection that is never used, as a client may open one
 * and then send its request on another: the program ends nevertheless.
 */
async function printedBy(name, port) {
  const child = spawn(process.execPath, [name], { cwd: project, timeout: 120_000 });
  const ended = once(child, "close");
  let unused;
  const connect = () => {
    if (child.exitCode !== null) return;
    unused = createConnection(port, "127.0.0.1").on("error", () => setTimeout(connect, 5));
  };
  connect();
  const [stdout, stderr, [status]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  unused.destroy();
  assert.equal(status, 0, `${name}: ${stdout}\n${stderr}`);
  return stdout.trim().split("\n");
}

/** The invoices of each customer are complete and in order. */
function areInOrder(lines) {
  const numbers = lines.map((line) => /^(customer-\d) .*number: (\d+), net: 100, gross: 120/.exec(line)).map((match, at) => (assert.ok(match, lines[at]), [match[1], Number(match[2])]));
  for (let customer = 0; customer < 3; customer += 1) {
    const its = numbers.filter(([name]) => name === `customer-${customer}`).map(([, number]) => number);
    assert.deepEqual(its, [customer, customer + 3, customer + 6, customer + 9]);
  }
}

test("the example runs as an ES module", async () => {
  const port = await write("example.mjs", examples["example.mjs"]);
  areInOrder(await printedBy("example.mjs", port));
});

test("the example of a consumer runs", async () => {
  const port = await write("consume.mjs", examples["consume.mjs"]);
  assert.deepEqual(await printedBy("consume.mjs", port), ["ann 1", "ann 2", "ann 3"]);
});

test("the example of a test runs", () => {
  writeFileSync(join(project, "app.test.mjs"), examples["app.test.mjs"]);
  const env = { ...process.env, RESEQ_BIN: reseqProgram() };
  // With it, the tests of a test would not run.
  delete env.NODE_TEST_CONTEXT;
  const { status, stdout } = spawnSync(process.execPath, ["--test", "--test-timeout=60000", "app.test.mjs"], { cwd: project, env, encoding: "utf8" });
  assert.equal(status, 0, stdout);
  assert.match(stdout, /# pass 1\n|ℹ pass 1\n/);
});

test("the example runs as CommonJS", async () => {
  await fetch(`${deployment.urls[0]}/v1/destinations/invoices?force=true`, { method: "DELETE" });
  const port = await write("example.cjs", examples["example.cjs"]);
  areInOrder(await printedBy("example.cjs", port));
});

test("the example compiles as TypeScript with --strict and runs", async () => {
  await fetch(`${deployment.urls[0]}/v1/destinations/invoices?force=true`, { method: "DELETE" });
  const port = await write("example.mts", examples["example.mjs"]);
  compile("example.mts");
  areInOrder(await printedBy("example.mjs", port));
});

/** Compiles files as a user does, also the declarations of the package. */
function compile(...files) {
  linkTypes();
  const args = [tsc, "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "--preserveSymlinks", ...files];
  const { status, stdout } = spawnSync(process.execPath, args, { cwd: project, encoding: "utf8" });
  assert.equal(status, 0, stdout);
}

/** The types of Node, which each project has. */
function linkTypes() {
  mkdirSync(join(project, "node_modules/@types"), { recursive: true });
  mkdirSync(join(project, "node_modules/@opentelemetry"), { recursive: true });
  for (const name of ["@types/node", "undici-types", "zod", "valibot", "@opentelemetry/api"]) {
    const types = join(project, "node_modules", name);
    rmSync(types, { force: true });
    symlinkSync(join(modules, name), types);
  }
}

test("the package has its licence, says where it is from, and its README leads to pages that exist", () => {
  const installed = join(project, "node_modules/reseq");
  assert.equal(readFileSync(join(installed, "LICENSE"), "utf8"), readFileSync(join(root, "LICENSE"), "utf8"));
  const { license, repository, homepage, keywords } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  assert.ok(license && repository.url && homepage && keywords.length > 0);
  const links = [...readFileSync(join(installed, "README.md"), "utf8").matchAll(/\]\(([^)#]+)(#[^)]*)?\)/g)].map(([, link]) => link);
  assert.ok(links.length >= 5, links.join());
  const pages = homepage.replace(/clients.*/, "");
  for (const link of links) {
    if (!link.startsWith(pages)) assert.ok(link.startsWith("https:"), `${link} leads out of the package`);
    else assert.ok(existsSync(join(root, link.slice(pages.length))), link);
  }
  const types = readdirSync(join(installed, "dist"), { recursive: true }).filter((name) => name.endsWith("api.d.ts"));
  assert.equal(types.length, 1, types.join());
});

test("no value in the TypeScript of the README is of type any", () => {
  const files = Object.entries(examples).filter(([name]) => name.endsWith(".ts")).map(([name, code]) => {
    const file = join(project, name.replace(/ts$/, "mts"));
    writeFileSync(file, code);
    return file;
  });
  const options = { strict: true, module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022, types: ["node"], preserveSymlinks: true, noEmit: true };
  linkTypes();
  const program = ts.createProgram(files, { ...options, typeRoots: [join(project, "node_modules/@types")] });
  const checker = program.getTypeChecker();
  const found = [];
  for (const file of files) {
    const source = program.getSourceFile(file);
    ts.forEachChild(source, function visit(node) {
      // The name of a type, or of the property that a pattern reads, is no value.
      const isName = ts.isImportSpecifier(node.parent ?? node) || ts.isQualifiedName(node.parent ?? node) || node.parent?.propertyName === node;
      if (ts.isIdentifier(node) && !isName && checker.getTypeAtLocation(node).flags & ts.TypeFlags.Any) found.push(`${file}: ${node.text}`);
      ts.forEachChild(node, visit);
    });
  }
  assert.deepEqual(found, []);
});

test("typescript-eslint with its strictest rules finds nothing in the README", async () => {
  const names = Object.keys(examples).filter((name) => name.endsWith(".ts"));
  mkdirSync(join(project, "lint"), { recursive: true });
  for (const name of names) writeFileSync(join(project, "lint", name.replace(/ts$/, "mts")), examples[name]);
  const compilerOptions = { strict: true, module: "nodenext", target: "es2022", types: ["node"], preserveSymlinks: true };
  writeFileSync(join(project, "lint/tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.mts"] }));
  linkTypes();
  const languageOptions = { parserOptions: { project: "./tsconfig.json", tsconfigRootDir: join(project, "lint") } };
  const eslint = new ESLint({ cwd: join(project, "lint"), overrideConfigFile: true, overrideConfig: [...tseslint.configs.strictTypeChecked, { files: ["**/*.mts"], languageOptions }] });
  const results = await eslint.lintFiles(["*.mts"]);
  assert.equal(results.length, names.length);
  assert.deepEqual(results.flatMap(({ filePath, messages }) => messages.map(({ line, message }) => `${filePath}:${line}: ${message}`)), []);
});

test("a forgotten return does not compile, and options may be undefined with exactOptionalPropertyTypes", () => {
  const code = `
import { DROP, KEEP, Output, Reseq, REQUEUE, Worker, checkedBody, memoryStore, orderGuard, redisStore, type ConsumeOptions, type DestinationDefinition, type GuardOptions, type Handler, type Message, type ReseqOptions, type SendOptions, type SqlStoreOptions, type WorkerOptions } from "reseq";
import { startReseq, type TestReseq } from "reseq/testing";
import * as v from "valibot";
import { z } from "zod";
interface Order { id: string; at?: Date }
interface Invoice extends Order { gross: number }
declare const order: Order, flag: boolean;
declare const none: undefined;
export const right: Handler<Order>[] = [
  () => order, async () => order, () => [order], async ({ body }) => ({ ...body, gross: 1 }), () => null, () => 7, async () => "text", () => true,
  async () => { if (flag) return KEEP; if (flag) return REQUEUE; return new Output("a"); }, () => Buffer.from("a"), async () => { throw new Error("no"); },
];
// @ts-expect-error
new Worker<Order>("erp", async ({ body }) => { body.id; });
// @ts-expect-error
new Worker<Order>("erp", ({ body }) => { body.id; });
// @ts-expect-error
new Worker<Order>("erp", async ({ body }) => { if (flag) return; return body; });
// @ts-expect-error
new Worker<Order>("erp", ({ body }) => { if (flag) return body; });
// @ts-expect-error
new Worker("erp", async ({ body }) => { body.id; });
new Worker<Order, Invoice>("erp", async ({ body }) => { if (flag) return KEEP; if (!flag) return DROP; return { ...body, gross: 1 }; });
new Worker<Order, Invoice>("erp", () => { if (flag) throw new Error("no"); return flag ? REQUEUE : new Output("a"); });
// @ts-expect-error
new Worker<Order, Invoice>("erp", ({ body }) => body);
// @ts-expect-error
new Worker<Order, Invoice>("erp", async ({ body }) => { if (flag) return { ...body, gross: 1 }; });
new Worker<Order, void>("mails", async ({ body }) => { body.id; });
new Worker<Order, void>("mails", ({ body }) => { if (flag) return KEEP; body.id; });
new Worker("erp", ({ body, key }) => ({ id: body.id.trim(), key }), { schema: z.object({ id: z.string() }) });
new Worker<Order, Invoice>("erp", async ({ body }) => ({ ...body, gross: 1 }), { schema: v.object({ id: v.string() }) });
// @ts-expect-error
new Worker("erp", ({ body }) => { body.id.trim(); }, { schema: z.object({ id: z.string() }) });
// @ts-expect-error
new Worker("erp", ({ body }) => body.net, { schema: z.object({ id: z.string() }) });
const typed = new Reseq<{ invoices: Order; mails: { to: string }; both: Order & { to: string } }>();
void typed.send("invoices", order);
void typed.send(["invoices", "mails"], { id: "1", to: "ann" });
void typed.publish("both", { id: "1", to: "ann" });
void typed.sendBatch("mails", [{ body: { to: "ann" }, key: "ann" }]);
// @ts-expect-error
void typed.send("invoice", order);
// @ts-expect-error
void typed.send("mails", order);
// @ts-expect-error
void typed.send(["invoices", "mails"], { id: "1" });
new Worker<Order>("invoices", () => 1, { reseq: typed });
new Worker("invoices", ({ body }) => body.id.trim(), { reseq: typed, concurrency: 4 });
new Worker(["invoices", "both"], ({ body }) => body.id.trim(), { reseq: typed });
new Worker("invoices", ({ body }) => body.net, { reseq: typed, schema: z.object({ net: z.number() }) });
new Worker("mails", ({ body }: Message<Order>) => body.id, { reseq: typed });
new Worker("mails", new URL("file:///mails.mjs"), { reseq: typed });
new Worker(["a"] as string[], ({ body }) => body.anything, { reseq: new Reseq() });
export const anyWorker: Worker = new Worker("invoices", () => 1, { reseq: typed });
// @ts-expect-error
new Worker("invoice", () => 1, { reseq: typed });
// @ts-expect-error
new Worker("invoice", new URL("file:///mails.mjs"), { reseq: typed });
// @ts-expect-error
new Worker("mails", ({ body }) => body.id, { reseq: typed });
// @ts-expect-error
new Worker("invoices", ({ body }) => { body.id.trim(); }, { reseq: typed });
const guarded = orderGuard({ store: memoryStore(), reseq: typed });
const service: TestReseq = await startReseq({ program: none, config: none, receive: none, log: none });
service.deliveries<Order>("invoices")[0]?.body.id.trim();
void guarded.consume(typed, "mails", ({ body }) => body.to.trim());
for await (const { body } of typed.consume("mails")) body.to.trim();
// @ts-expect-error
typed.consume("mail");
// @ts-expect-error
for await (const { body } of typed.consume("mails")) body.id;
guarded.node(async (message) => { (await checkedBody(message, v.object({ to: v.string() }))).to.trim(); });
type Undefined<T> = { [Name in keyof T]: undefined };
export const options: [ReseqOptions, SendOptions, WorkerOptions, ConsumeOptions, Omit<GuardOptions<undefined>, "store">, Pick<SqlStoreOptions<undefined>, "table" | "deliveriesMax">, DestinationDefinition] = [
  null! as Undefined<ReseqOptions>, null! as Undefined<SendOptions>, null! as Undefined<WorkerOptions>, null! as Undefined<ConsumeOptions>,
  null! as Undefined<Omit<GuardOptions<undefined>, "store">>, null! as Undefined<Pick<SqlStoreOptions<undefined>, "table" | "deliveriesMax">>, null! as Undefined<DestinationDefinition>,
];
const reseq = new Reseq({ backoff: { firstMs: none, maxMs: none } });
void reseq.call("GET", "/", none, { signal: none, headers: none, retryMs: none });
void reseq.send("erp", 1).delivered({ signal: none });
void reseq.define("erp", { transform: { timeout_ms: none }, delivery: { timeout_ms: none } }, { signal: none });
orderGuard({ store: memoryStore({ lanesMax: none }) });
redisStore({ call: async () => 1 }, { prefix: none, lockMs: none });
`;
  writeFileSync(join(project, "types.mts"), code);
  compile("--exactOptionalPropertyTypes", "types.mts");
  writeFileSync(join(project, "default.mts"), 'import Reseq from "reseq";\nnew Reseq();\n');
  assert.throws(() => compile("default.mts"), /has no default export/);
});

test("a mistake in a send is reported against the body, the option or the name", () => {
  const begin = 'import { Reseq } from "reseq";\nconst reseq = new Reseq<{ mails: { to: string }; calls: { number: number } }>();\n';
  for (const [call, sentence] of [
    ['send("mails", { to: 7 })', /Type 'number' is not assignable to type 'string'/],
    ['send("mails", { to: "ann" }, { delayMs: "5" })', /Type 'string' is not assignable to type 'number'/],
    ['send("mails", { to: "ann" }, { jobId: "5" })', /'jobId' does not exist in type 'SendOptions'/],
    ['send("mail", { to: "ann" })', /Argument of type '"mail"' is not assignable to parameter of type 'NameOf<.*>'/],
  ]) {
    writeFileSync(join(project, "mistake.mts"), `${begin}void reseq.${call};\n`);
    assert.throws(() => compile("mistake.mts"), ({ message }) => {
      // TypeScript lists the signatures in their order, and says which is the last.
      const last = message.split(/Overload \d of \d/).at(-1);
      assert.match(last, sentence);
      assert.doesNotMatch(last, /\[\]'/);
      return true;
    });
  }
});

test("all other examples of the README compile with --strict, as ES modules and as CommonJS", () => {
  const others = Object.entries(examples).filter(([name]) => name.endsWith(".ts"));
  assert.ok(others.length >= 3, Object.keys(examples).join());
  for (const [name, code] of others) writeFileSync(join(project, name.replace(/ts$/, "mts")), code);
  writeFileSync(join(project, "common.cts"), 'import { Reseq, KEEP } from "reseq";\nconst reseq: Reseq = new Reseq();\nexport const both = [reseq, KEEP];\n');
  compile("common.cts", ...others.map(([name]) => name.replace(/ts$/, "mts")));
});

test("the producer, the worker and the receiver of the README need at most 30 lines", () => {
  const lines = examples["example.mjs"].split("\n").filter((line) => line.trim() !== "" && !line.trim().startsWith("//"));
  assert.ok(lines.length <= 30, `${lines.length} lines`);
});

test("the types are those of the OpenAPI document", () => {
  const { status, stderr } = spawnSync(process.execPath, [join(folder, "scripts/generate.mjs"), "--check"], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
});

test("the codes are those of the reference", () => {
  const page = readFileSync(join(root, "docs/reference/errors.md"), "utf8").split("<!-- generated: codes")[1].split("<!-- end: codes")[0];
  const listed = [...page.matchAll(/^\| `(\w+)` \| (?!TCP only)/gm)].map(([, code]) => code);
  assert.deepEqual([...CODES].sort(), listed.sort());
});
