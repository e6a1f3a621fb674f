// Schedules: three processes send each due time, they are killed again and again, and each due time arrives once.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/15-schedules.mjs
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { done, drained, pause, receiver, reseq } from "./lib.mjs";

const everyMs = Number(process.env.EVERY_MS ?? 250); // in production: an hour, or what a cron expression says
const aheadMs = 4 * everyMs;
const backMs = 40 * everyMs; // less than `idempotency_window_ms`

// Any number of senders do this. They know nothing of each other, and keep nothing.
async function sendDue(now, from, to) {
  const last = Math.min(to - 1, now + aheadMs);
  for (let due = Math.ceil(Math.max(from, now - backMs) / everyMs) * everyMs; due <= last; due += everyMs) {
    const at = new Date(due).toISOString();
    await reseq.send("hourly", { due: at }, { idempotencyKey: `hourly ${at}`, dueAt: at });
  }
}

async function sender(from, to) {
  for (;;) {
    await sendDue(Date.now(), from, to);
    await pause(everyMs);
  }
}

// The demonstration: this many due times from now on, and this many kills.
async function demonstrate(count, kills) {
  const arrived = [];
  const { url } = await receiver(({ body }) => void arrived.push({ due: Date.parse(body.due), at: Date.now() }), { ordering: "none" });
  await reseq.define("hourly", { url, ordering: "none" });
  const from = Math.ceil(Date.now() / everyMs) * everyMs;
  const to = from + count * everyMs;
  const start = () => fork(fileURLToPath(import.meta.url), ["sender", String(from), String(to)]);
  const senders = [start(), start(), start()];
  for (let kill = 0; kill < kills; kill += 1) {
    await pause((count * everyMs) / (kills + 1));
    const ended = once(senders[kill % 3], "exit");
    senders[kill % 3].kill("SIGKILL");
    await ended;
    senders[kill % 3] = start();
  }
  while (new Set(arrived.map(({ due }) => due)).size < count) await pause(50);
  for (const each of senders) each.kill("SIGKILL");
  await drained("hourly");
  const expected = Array.from({ length: count }, (_, at) => from + at * everyMs);
  const found = arrived.map(({ due }) => due).sort((one, other) => one - other);
  done({ due: count, kills, arrived: found.length, eachOnce: found.join() === expected.join(), early: arrived.filter(({ due, at }) => at < due).length });
}

if (process.argv[2] === "sender") await sender(Number(process.argv[3]), Number(process.argv[4]));
else await demonstrate(Number(process.env.COUNT ?? 60), Number(process.env.KILLS ?? 10));
