// Jobs: how many run, how many wait, and no job twice. The client does not wait for its job.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/06-running-and-waiting.mjs
import { Worker } from "reseq";
import { done, drained, listed, pause, receiver, reseq, until } from "./lib.mjs";

const runners = 4;
const jobMs = Number(process.env.JOB_MS ?? 3000);
const leaseMs = Number(process.env.LEASE_MS ?? 30_000); // jobs may take longer: the worker extends its leases
const jobs = Array.from({ length: 20 }, (_, number) => `report-${number}`);

const results = [];
const { url } = await receiver(({ body }) => void results.push(body.job), { ordering: "none" });
await reseq.define("jobs", {
  url,
  ordering: "none",
  transform: { kind: "worker" },
  idempotency_window_ms: 0, // an id is in use only while its job waits or runs
});

// A client requests a job, gets its 202 as soon as Redis has the job, and leaves.
async function ask(job) {
  const asked = performance.now();
  const { sequence, duplicate } = await reseq.send("jobs", { job }, { id: job, idempotencyKey: job });
  return { job, sequence, duplicate, ms: performance.now() - asked };
}

// The page of jobs: how many, and which ones.
async function page() {
  const { waiting, processing, delivered_total: finished } = await reseq.stats("jobs");
  const list = async (state) => (await listed("/v1/destinations/jobs/messages", { state })).map(({ id }) => id);
  return { waiting, running: processing, finished, which: await list("processing"), next: await list("waiting") };
}

// The runners, four at once. The first jobs take at least until the page was read.
const ran = [];
let isLookedAt = false;
new Worker("jobs", async ({ body: { job } }) => {
  ran.push(job);
  await pause(jobMs);
  while (!isLookedAt) await pause(5);
  return { job, done: true };
}, { reseq, concurrency: runners, leaseMs });

const asked = await Promise.all(jobs.map(ask));
await until("all runners are busy", async () => (await reseq.stats("jobs")).processing === runners);
const shown = await page();
console.log(JSON.stringify(shown));
// All clients request their jobs again while these wait and run: no job is queued twice.
const again = await Promise.all(jobs.map(ask));
const unchanged = await page();
isLookedAt = true;
await drained("jobs");
const once = [...ran];
// A job that is done can be requested again.
const anew = await ask(jobs[0]);
await drained("jobs");

done({
  jobs: jobs.length,
  asked: asked.filter(({ duplicate }) => !duplicate).length,
  shown: { ...shown, which: shown.which.length, next: shown.next.length },
  together: new Set([...shown.which, ...shown.next]).size,
  runs: [...shown.which].sort().join() === once.slice(0, runners).sort().join(),
  again: again.filter(({ duplicate }) => duplicate).length,
  unchanged: [unchanged.waiting, unchanged.running],
  ran: once.length,
  different: new Set(once).size,
  anew: !anew.duplicate && ran.length === jobs.length + 1,
  results: results.length,
  slowestAnswerMs: Math.round(Math.max(...[...asked, ...again].map(({ ms }) => ms))),
});
