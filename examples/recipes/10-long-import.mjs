// A long import of a file, by a process that may be killed at any moment. Another process continues from
// the checkpoint; on SIGTERM the message is requeued at once.
//
//   export RESEQ_URL=http://127.0.0.1:8080
//   node examples/recipes/10-long-import.mjs import FILE &   # sends the file, and is the target of the import
//   node examples/recipes/10-long-import.mjs worker          # one or more; kill them at any time
import { open } from "node:fs/promises";
import { define, done, drained, pause, receiver, reseq, send } from "./lib.mjs";

const chunk = Number(process.env.CHUNK ?? 100);
const leaseMs = Number(process.env.LEASE_MS ?? 30_000);
const say = (what) => console.log(JSON.stringify(what));
const [, , role, file] = process.argv;

/** The lines of a file, in chunks, from a given line on. */
async function* chunks(name, from) {
  const handle = await open(name);
  let number = 0;
  let lines = [];
  for await (const line of handle.readLines()) {
    number += 1;
    if (number > from) lines.push(line);
    if (lines.length === chunk) {
      yield { upto: number, lines };
      lines = [];
    }
  }
  if (lines.length > 0) yield { upto: number, lines };
}

let isStopping = false;

/** Imports until the end, or until it must stop. True if it reached the end. */
async function importFile({ token, body, checkpoint, attempt }) {
  let line = checkpoint?.line ?? 0;
  say({ attempt, from: line });
  for await (const { upto, lines } of chunks(body.file, line)) {
    // First the target, then the checkpoint: a kill between the two repeats one chunk, and the target
    // recognises it by the number of its last line.
    const { ok } = await fetch(body.target, { method: "POST", body: JSON.stringify({ first: line + 1, lines }) });
    if (!ok) throw new Error("the target did not take the lines");
    line = upto;
    const items = [{ token, lease_ms: leaseMs, checkpoint: { line } }];
    const [{ status }] = (await reseq("POST", "/v1/leases/extend", { items })).results;
    if (status !== "ok") throw new Error(`the import is somebody else's now: ${status}`);
    say({ checkpoint: line });
    if (isStopping) return false;
  }
  await reseq("POST", "/v1/leases/complete", { items: [{ token, body: { imported: line } }] });
  return true;
}

async function work() {
  process.on("SIGTERM", () => (isStopping = true));
  while (!isStopping) {
    const asked = { destinations: ["imports"], wait_ms: 1000, lease_ms: leaseMs };
    const [lease] = (await reseq("POST", "/v1/leases", asked)).leases;
    if (!lease) continue;
    const { token } = lease;
    try {
      if (await importFile(lease)) continue;
      await reseq("POST", "/v1/leases/requeue", { items: [{ token }] });
      say({ handedBack: true });
    } catch (error) {
      // Another attempt starts later, from the checkpoint. Has no effect if another worker has the lease.
      await reseq("POST", "/v1/leases/fail", { items: [{ token, error: error.message }] });
    }
  }
  process.exit(0);
}

/** The target: it stores the number of its last line with the lines, and ignores lines that it has. */
async function target() {
  const lines = [];
  const calls = [];
  const into = await receiver(async ({ body }) => {
    await pause(2);
    const { first } = body;
    calls.push(first);
    body.lines.forEach((line, at) => {
      if (first + at === lines.length + 1) lines.push(line);
      else if (first + at > lines.length) throw new Error(`line ${first + at} after ${lines.length}`);
    });
  });
  return { url: into.url, lines, calls };
}

if (role !== "worker" && !(role === "import" && file)) {
  console.error("usage: node 10-long-import.mjs import FILE | worker");
  process.exit(2);
}
if (role === "worker") await work();

const into = await target();
let report;
const finished = new Promise((resolve) => (report = resolve));
const { url } = await receiver(({ body }) => report(body));
// No number of kills ends the import: stalls_max 0. A file cannot be requested again while it is
// imported: idempotency_window_ms 0.
await define("imports", { url, transform: { kind: "worker", stalls_max: 0 }, idempotency_window_ms: 0 });
say(await send("imports", { file, target: into.url }, { idempotency_key: `import ${file}` }));
const { imported } = await finished;
await drained("imports");
done({ imported, lines: into.lines.length, first: into.lines[0], last: into.lines.at(-1),
  once: new Set(into.lines).size, calls: into.calls });
