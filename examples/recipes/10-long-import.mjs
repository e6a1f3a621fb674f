// A long import of a file, by a process that may be killed at any moment. Another process continues from
// the checkpoint; on SIGTERM the message is requeued at once.
//
//   export RESEQ_URL=http://127.0.0.1:8080
//   node examples/recipes/10-long-import.mjs import FILE &   # sends the file, and is the target of the import
//   node examples/recipes/10-long-import.mjs worker          # one or more; kill them at any time
import { open } from "node:fs/promises";
import { createServer } from "node:http";
import { REQUEUE, Worker } from "reseq";
import { done, drained, pause, receiver, reseq } from "./lib.mjs";

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

/** Imports until the end, or until the worker is told to stop. */
async function importFile({ body, checkpoint, attempt }, { checkpoint: save, stopping }) {
  let line = checkpoint?.line ?? 0;
  say({ attempt, from: line });
  for await (const { upto, lines } of chunks(body.file, line)) {
    // First the target, then the checkpoint: a kill between the two repeats one chunk, and the target
    // recognises it by the number of its last line.
    const { ok } = await fetch(body.target, { method: "POST", body: JSON.stringify({ first: line + 1, lines }) });
    if (!ok) throw new Error("the target did not take the lines");
    line = upto;
    await save({ line });
    say({ checkpoint: line });
    if (!stopping.aborted) continue;
    say({ handedBack: true });
    return REQUEUE;
  }
  return { imported: line };
}

/** The target: it stores the number of its last line with the lines, and ignores lines that it has. */
async function target() {
  const lines = [];
  const calls = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const { first, lines: some } = JSON.parse(text);
    await pause(2);
    calls.push(first);
    const isGap = first > lines.length + 1;
    if (!isGap) lines.push(...some.slice(lines.length + 1 - first));
    response.writeHead(isGap ? 409 : 204).end();
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}/`, lines, calls };
}

if (role !== "worker" && !(role === "import" && file)) {
  console.error("usage: node 10-long-import.mjs import FILE | worker");
  process.exit(2);
}
if (role === "worker") {
  new Worker("imports", importFile, { concurrency: 1, leaseMs, closeOn: ["SIGTERM"] });
  await new Promise(() => {}); // until it is told to stop
}

const into = await target();
let report;
const finished = new Promise((resolve) => (report = resolve));
const { url } = await receiver(({ body }) => report(body));
// No number of kills ends the import: stalls_max 0. A file cannot be requested again while it is
// imported: idempotency_window_ms 0.
await reseq.define("imports", { url, transform: { kind: "worker", stalls_max: 0 }, idempotency_window_ms: 0 });
say(await reseq.send("imports", { file, target: into.url }, { idempotencyKey: `import ${file}` }));
const { imported } = await finished;
await drained("imports");
done({ imported, lines: into.lines.length, first: into.lines[0], last: into.lines.at(-1),
  once: new Set(into.lines).size, calls: into.calls });
