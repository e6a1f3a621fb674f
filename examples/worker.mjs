// A worker for Reseq, with nothing but Node's own fetch (Node 18 or later):
//
//   RESEQ_URL=http://127.0.0.1:8080 node worker.mjs erp
//
// It leases messages of a destination whose transform is { kind = "worker" }, works on them side
// by side, and completes them in whatever order they are finished. Reseq delivers them in the
// order in which they arrived.

const url = process.env.RESEQ_URL ?? "http://127.0.0.1:8080";
const destination = process.argv[2] ?? "erp";
const leaseMs = Number(process.env.LEASE_MS ?? 30_000);
const messagesMax = 16;
const stop = new AbortController();

process.on("SIGTERM", () => stop.abort());
process.on("SIGINT", () => stop.abort());

/** The work itself: what it returns is delivered; what it throws is tried again. */
async function transform(body, { attempt }) {
  if (body.failsFirst && attempt === 1) throw new Error("not at the first attempt");
  await new Promise((resolve) => setTimeout(resolve, body.workMs ?? 0));
  return { ...body, transformed: true };
}

async function post(path, body, signal) {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${path}: ${answer.status} ${answer.code}: ${answer.detail}`);
  return answer;
}

async function work(lease) {
  const { token, sequence, attempt } = lease;
  // A lease that is not extended in time goes to another worker.
  const extending = setInterval(() => {
    post("/v1/leases/extend", { items: [{ token, lease_ms: leaseMs }] })
      .then(({ results }) => say({ sequence, attempt, extended: results[0].status }))
      .catch((error) => console.error(`cannot extend: ${error.message}`));
  }, leaseMs / 3);
  let output, failure;
  try {
    output = await transform(lease.body, lease);
  } catch (error) {
    failure = error;
  } finally {
    clearInterval(extending);
  }
  const { results } = failure
    ? await post("/v1/leases/fail", { items: [{ token, error: failure.message, retry_ms: 10 }] })
    : await post("/v1/leases/complete", { items: [{ token, body: output }] });
  say({ sequence, attempt, [failure ? "failed" : "completed"]: results[0].status });
}

function say(event) {
  console.log(JSON.stringify(event));
}

const atWork = new Set();

while (!stop.signal.aborted) {
  try {
    const request = {
      destinations: [destination],
      max: messagesMax - atWork.size,
      wait_ms: 20_000,
      lease_ms: leaseMs,
    };
    const { leases } = await post("/v1/leases", request, stop.signal);
    for (const lease of leases) {
      say({ sequence: lease.sequence, attempt: lease.attempt, leased: true });
      // If this fails the lease runs out, and the message is leased again.
      const done = work(lease).catch((error) => console.error(error.message));
      atWork.add(done);
      done.finally(() => atWork.delete(done));
    }
    if (atWork.size >= messagesMax) await Promise.race(atWork);
  } catch (error) {
    if (stop.signal.aborted) break;
    console.error(`${error.message}; trying again`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
// What was leased is finished before the process ends.
await Promise.all(atWork);
