// Jobs: how many run, how many wait, and no job twice. The client does not wait for its job.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/06-running-and-waiting.mjs
import { define, done, drained, firstTimes, pause, receiver, reseq, send, stats, until, worker } from "./lib.mjs";

const runners = 4;
const jobs = Array.from({ length: 20 }, (_, number) => `report-${number}`);

const results = [];
const isFirst = firstTimes();
const { url } = await receiver((result) => void (isFirst(result) && results.push(result.body.job)));
await define("jobs", {
  url,
  ordering: "none",
  transform: { kind: "worker" },
  idempotency_window_ms: 0, // an id is in use only while its job waits or runs
});

// A client requests a job, gets its 202 as soon as Redis has the job, and leaves.
async function ask(job) {
  const asked = performance.now();
  const { sequence, duplicate } = await send("jobs", { job }, { id: job, idempotency_key: job });
  return { job, sequence, duplicate, ms: performance.now() - asked };
}

// The page of jobs: how many, and which ones.
async function page() {
  const { waiting, processing, delivered_total: finished } = await stats("jobs");
  const list = async (state) => {
    const { items } = await reseq("GET", `/v1/destinations/jobs/messages?state=${state}&limit=100`);
    return items.map(({ id }) => id);
  };
  return { waiting, running: processing, finished, which: await list("processing"), next: await list("waiting") };
}

// The runners. A job takes some time; here, until the page was read.
const ran = [];
let isLookedAt = false;
worker(["jobs"], async ({ body: { job } }) => {
  ran.push(job);
  while (!isLookedAt) await pause(5);
  return { job, done: true };
}, { max: runners });

const asked = await Promise.all(jobs.map(ask));
await until("all runners are busy", async () => (await stats("jobs")).processing === runners);
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
