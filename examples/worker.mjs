// A worker for Reseq, with nothing but Node's own fetch (Node 20 or newer):
//
//   RESEQ_URL=http://127.0.0.1:8080 node worker.mjs erp
//
// It leases messages of a destination whose transform is { kind = "worker" }, processes them in
// parallel, and completes each when it is done. Reseq delivers them in the order in which they
// arrived. It expects JSON bodies: a lease has any other body as body_base64.

import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.RESEQ_URL ?? "http://127.0.0.1:8080";
const destination = process.argv[2] ?? "erp";
const leaseMs = Number(process.env.LEASE_MS ?? 30_000);
const messagesMax = 16;
const stop = new AbortController();

process.on("SIGTERM", () => stop.abort());
process.on("SIGINT", () => stop.abort());

/**
 * Your work. Reseq delivers what it returns. If it throws, the message is tried again, unless the error
 * has `final: true`. `signal` is aborted when another worker has the message.
 */
async function transform(body, { attempt }, signal) {
  if (body.failsFirst && attempt === 1) throw new Error("not at the first attempt");
  if (body.returnsNothing) return undefined;
  await pause(body.workMs ?? 0, signal);
  return { ...body, transformed: true };
}

const pause = (ms, signal) => sleep(ms, undefined, { signal });

async function post(path, body, signal) {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const answer = await response.json();
  if (response.ok) return answer;
  const isRefused = response.status < 500 && response.status !== 429;
  throw Object.assign(new Error(`${path}: ${answer.status} ${answer.code}: ${answer.detail}`), { isRefused });
}

/**
 * Repeats a call about one lease until Reseq answers, so that a restart of Reseq loses no finished work.
 * Repeating is safe. Returns the status, or throws if Reseq refuses the item for good.
 */
async function insist(how, item) {
  for (;;) {
    try {
      return (await post(`/v1/leases/${how}`, { items: [item] })).results[0].status;
    } catch (error) {
      if (error.isRefused) throw error;
      console.error(`${error.message}; retrying`);
      await pause(200);
    }
  }
}

/** Fails for good if the output is not JSON: another attempt would not help. */
function asJson(output) {
  if (JSON.stringify(output) !== undefined) return output;
  throw Object.assign(new Error(`transform returned ${typeof output} instead of JSON`), { final: true });
}

async function work(lease) {
  const { token, sequence, attempt } = lease;
  const lost = new AbortController();
  let isExtending = false;
  // Without an extension in time, another worker gets the message.
  const timer = setInterval(async () => {
    if (isExtending) return;
    isExtending = true;
    const extended = await insist("extend", { token, lease_ms: leaseMs }).catch((error) => error.message);
    isExtending = false;
    say({ sequence, attempt, extended });
    if (extended === "stale_lease") lost.abort();
  }, leaseMs / 3);
  const fail = async ({ message, final = false }) => {
    const failed = await insist("fail", { token, error: message, final, ...(final ? {} : { retry_ms: 10 }) });
    say({ sequence, attempt, failed, error: message });
  };
  try {
    let output;
    try {
      output = asJson(await transform(lease.body, lease, lost.signal));
    } catch (error) {
      // Report only failures of the work itself.
      if (!lost.signal.aborted) await fail(error);
      return;
    }
    // Reseq may refuse the output for good, for example because it is too long.
    const refused = (error) => fail(Object.assign(error, { final: true })).then(() => "refused");
    const completed = await insist("complete", { token, body: output }).catch(refused);
    say({ sequence, attempt, completed });
  } finally {
    clearInterval(timer);
  }
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
      // If this fails, the lease expires, and the message is leased again.
      const done = work(lease).catch((error) => console.error(error.message));
      atWork.add(done);
      done.finally(() => atWork.delete(done));
    }
    if (atWork.size >= messagesMax) await Promise.race(atWork);
  } catch (error) {
    if (stop.signal.aborted) break;
    console.error(`${error.message}; retrying`);
    await pause(500);
  }
}
// Finish all leased messages before the process ends.
await Promise.all(atWork);
