// What to do with a message that fails: retry it with a backoff, make it a dead letter, discard it, or stop
// its lane until an operator has repaired it.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/14-retry-and-dead-letters.mjs
import { Permanent, Retry } from "reseq";
import { done, drained, listed, receiver, reseq, until } from "./lib.mjs";

const count = Number(process.env.MESSAGES ?? 100);
const backoff = { backoff_ms: 40, backoff_max_ms: 300 };

const refusals = { 422: new Permanent("never"), 500: new Error("broken"), 503: new Retry("busy", 0) };

/** A receiver that refuses as `refusal` says. It records what it accepted, and when it refused. */
async function shop(name, fields, refusal) {
  const seen = { took: [], refused: new Map(), origins: [], isMended: false };
  const { url } = await receiver(({ body, attempt, origin }) => {
    const status = seen.isMended ? undefined : refusal(body.item, attempt);
    if (status) {
      seen.refused.set(body.item, [...(seen.refused.get(body.item) ?? []), Date.now()]);
      throw refusals[status];
    }
    seen.took.push(body.item);
    if (origin) seen.origins.push(origin);
  }, { onError: () => {} });
  const { delivery, ...rest } = fields;
  await reseq.define(name, { url, ...rest, delivery: { ...backoff, ...delivery } });
  await reseq.sendBatch(name, Array.from({ length: count }, (_, item) => ({ body: { item } })));
  return seen;
}
const isPoison = (item) => item % 25 === 10;
const at = (name, what) => `/v1/destinations/${name}/${what}`;

// 1. Retry: the service is busy at times. Reseq retries after longer and longer, random waits.
async function retried() {
  const seen = await shop("retry", {}, (item, attempt) => (isPoison(item) && attempt < 6 ? 503 : undefined));
  await drained("retry");
  const waits = [...seen.refused.values()].map((times) => times.slice(1).map((time, n) => time - times[n]));
  return { took: seen.took, attempts: [...seen.refused.values()].map((times) => times.length + 1), waits };
}

// 2. Dead letters: after three attempts a message becomes a dead letter, and those behind it continue. When
// the service is fixed, they are redriven: each arrives again, and names its old position.
async function setAside() {
  const seen = await shop("letters", { on_exhausted: "dead_letter", delivery: { attempts_max: 3 } }, (item) => (isPoison(item) ? 500 : undefined));
  await drained("letters");
  const before = [...seen.took];
  const letters = await listed(at("letters", "dead-letters"));
  const letter = await reseq.call("GET", at("letters", `dead-letters/${letters[0].sequence}`));
  seen.isMended = true;
  const redrive = (what) => reseq.call("POST", at("letters", "dead-letters/redrive"), what);
  const { matched } = await redrive({ all: true, dry_run: true });
  const { affected: redriven } = await redrive({ all: true });
  await drained("letters");
  return { before, letters: letters.map(({ sequence, attempts }) => ({ sequence, attempts })), body: letter.body,
    error: letter.last_error?.status, matched, redriven, after: seen.took.slice(before.length),
    origins: seen.origins, dead_letters: (await reseq.stats("letters")).dead_letters };
}

// 3. Discard: a message that fails twice is dropped.
async function discarded() {
  const seen = await shop("discard", { on_exhausted: "drop", delivery: { attempts_max: 2 } }, (item) => (isPoison(item) ? 500 : undefined));
  await drained("discard");
  return { took: seen.took, dead_letters: (await reseq.stats("discard")).dead_letters };
}

// 4. Halt: the order matters most. The lane waits for an operator, who repairs the message in its place.
async function halted() {
  const seen = await shop("halt", { on_exhausted: "halt" }, (item) => (isPoison(item) ? 422 : undefined));
  const mended = [];
  for (let poison = 10; poison < count; poison += 25) {
    const isHalted = async () => (await reseq.stats("halt")).head?.state === "halted";
    await until("a message halts its lane", isHalted);
    const { head } = await reseq.stats("halt");
    mended.push({ sequence: head.sequence, blocked_by: head.blocked_by, took: seen.took.length });
    await reseq.call("POST", at("halt", "retry-head"), { sequence: head.sequence, body: { item: `mended ${poison}` } });
  }
  await drained("halt");
  return { took: seen.took, mended };
}

const [retry, letters, discard, halt] = await Promise.all([retried(), setAside(), discarded(), halted()]);
done({ retry, letters, discard, halt });
