// Webhooks of a shop: each needs about 750 ms of enrichment, and the ERP gets them in order for each customer.
// One event is poison: it becomes a dead letter, and the events of its customer behind it go on.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/00-webhook-to-erp.mjs
import { KEEP, Permanent, Worker } from "reseq";
import { done, drained, pause, receiver, reseq, until } from "./lib.mjs";

const events = Number(process.env.EVENTS ?? 60);
const customers = 5;
const workMs = Number(process.env.WORK_MS ?? 750);

// The ERP books each event once, in order for each customer. It is told what is missing, and why.
const booked = [];
const missing = [];
const { url } = await receiver(({ key, body }) => void booked.push({ customer: key, ...body }), {
  reseq,
  onGap: (gap) => missing.push(...gap.missing.map(({ state }) => ({ customer: gap.key, state }))),
});

// The shop cannot send headers of ours: Reseq finds the customer and the id of the event in its body.
await reseq.define("erp", {
  url,
  ordering: "key",
  key_from: { jq: ".customer" },
  idempotency_key_from: { jq: ".id" },
  transform: { kind: "worker" },
  on_exhausted: "dead_letter",
});

// The enrichment: many at once. Reseq puts the results in order again.
const seen = new Set();
const worker = new Worker("erp", async ({ body, key }) => {
  seen.add(body.id);
  if (body.total < 0) throw new Permanent(`a negative total, of ${key}`);
  await pause(workMs * (0.5 + Math.random()));
  return body.isTest ? KEEP : { ...body, credit: body.total * 2 };
}, { reseq, concurrency: 64 });

// The shop: plain HTTP. It sends an event again when it has no answer, here each tenth one.
const hook = `${(process.env.RESEQ_URL || "http://127.0.0.1:8080").split(",")[0]}/v1/destinations/erp/messages`;
const today = new Date().toISOString();
const post = (event) => fetch(hook, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(event) });
const eventOf = (number) => ({ id: `${today} ${number}`, number, customer: `customer ${number % customers}`, total: number === 12 ? -1 : 10 });
const began = Date.now();
for (let number = 0; number < events; number += 1) {
  const event = eventOf(number);
  do {
    while (!(await post(event).then(({ ok }) => ok, () => false))) await pause(100);
  } while (number % 10 === 0 && !seen.has(event.id));
}
await drained("erp");
const ms = Date.now() - began;
await until("the ERP knows what is missing", () => missing.length > 0);
await worker.close();

const { dead_letters: deadLetters } = await reseq.stats("erp");
const isSorted = (numbers) => numbers.every((number, at) => at === 0 || number > numbers[at - 1]);
const ofCustomer = (at) => booked.filter(({ customer }) => customer === `customer ${at}`).map(({ number }) => number);
const inOrder = Array.from({ length: customers }, (_, at) => isSorted(ofCustomer(at))).every(Boolean);
done({ events, booked: booked.length, different: new Set(booked.map(({ id }) => id)).size, inOrder, deadLetters, missing, ms });
