// A booking with four background tasks: one publish reaches four services, and the client polls their
// progress. Publishing again, to any pod, duplicates nothing.
//
//   RESEQ_URL=http://127.0.0.1:8080,http://127.0.0.1:8081 node examples/recipes/13-booking.mjs
import { Retry } from "reseq";
import { done, receiver, reseq, until } from "./lib.mjs";

const count = Number(process.env.BOOKINGS ?? 200);
const today = new Date().toISOString();
const services = ["payment", "seat", "mail", "invoice"];

// The services. Each records the bookings that it has handled. The invoice service fails at first.
const did = Object.fromEntries(services.map((name) => [name, new Map()]));
let isInvoicing = false;
for (const name of services) {
  const { url } = await receiver(({ id, body }) => {
    if (name === "invoice" && !isInvoicing) throw new Retry("no invoices yet", 0);
    const times = did[name].get(body.booking) ?? new Set();
    did[name].set(body.booking, times.add(id));
  }, { ordering: "none", onError: () => {} });
  // Bookings do not depend on each other.
  const delivery = { backoff_ms: 50, backoff_max_ms: 500 };
  await reseq.define(name, { url, ordering: "none", delivery, log_max: 10 * count });
}
await reseq.defineTopic("booking", services);

/** Publishes until it succeeds. The booking's number is the idempotency key. */
const publish = (booking) => reseq.publish("booking", { booking }, { idempotencyKey: `${today} ${booking}` });

/** The progress of the four tasks. */
async function statusOf({ deliveries }) {
  const look = async ({ destination, sequence }) => {
    const { state, attempts, last_error: error } = await reseq.message(destination, sequence);
    return [destination, { state, attempts, error: error?.detail }];
  };
  return Object.fromEntries(await Promise.all(deliveries.map(look)));
}

// Many clients at once. (The test kills the first pod meanwhile.)
const published = new Map();
let next = 0;
const client = async () => {
  while (next < count) {
    const booking = next++;
    published.set(booking, await publish(booking));
    console.log(JSON.stringify({ published: published.size }));
  }
};
await Promise.all(Array.from({ length: 4 }, client));

// A client without an answer books again, and gets the same answer.
let doubled = 0;
let toldOtherwise = 0;
for (const [booking, first] of published) {
  const second = await publish(booking);
  const places = ({ deliveries }) => deliveries.map(({ destination, sequence }) => `${destination} ${sequence}`).sort().join();
  doubled += second.deliveries.filter(({ duplicate }) => !duplicate).length;
  if (places(first) !== places(second)) toldOtherwise += 1;
}

// Three tasks succeed; the status of the fourth shows that it fails, and why.
const some = [...published.values()].slice(0, 20);
let during;
await until("the status shows a failing invoice", async () => {
  during = await statusOf(some[0]);
  const areDone = services.slice(0, 3).every((name) => during[name].state === "delivered");
  return areDone && during.invoice.attempts > 0;
});
isInvoicing = true;
const isDone = (status) => services.every((name) => status[name].state === "delivered");
for (const booking of published.values()) await until("it is booked", async () => isDone(await statusOf(booking)));

const timesDone = (name) => [...did[name].values()];
done({
  bookings: published.size,
  doubled,
  toldOtherwise,
  during,
  did: Object.fromEntries(services.map((name) => [name, timesDone(name).length])),
  twice: services.flatMap(timesDone).filter((ids) => ids.size > 1).length,
});
