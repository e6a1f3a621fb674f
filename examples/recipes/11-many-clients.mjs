// Many clients, one of them heavy, and some workers: each client has a destination of its own, and the
// claims go round them. The heavy one does not starve the others.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/11-many-clients.mjs
import { define, done, pause, receiver, reseq, sendAll, until } from "./lib.mjs";

const clients = Number(process.env.CLIENTS ?? 1000);
const heavyCount = Number(process.env.HEAVY ?? 5000);
const each = Number(process.env.EACH ?? 3);
const workers = Number(process.env.WORKERS ?? 24);
const names = Array.from({ length: clients }, (_, at) => `client-${String(at).padStart(4, "0")}`);
const [heavy, ...others] = names;
const timed = async (what) => {
  const start = Date.now();
  await what();
  return Date.now() - start;
};

const delivered = new Map(names.map((name) => [name, []]));
const last = new Map(names.map((name) => [name, 0]));
let othersLeft = others.length * each;
let heavyDoneThen;
const { url } = await receiver(({ headers, body: batch }) => {
  const client = headers["reseq-destination"];
  for (const { sequence, body } of batch) {
    if (sequence <= last.get(client)) continue;
    last.set(client, sequence);
    delivered.get(client).push(body.item);
    if (client !== heavy && (othersLeft -= 1) === 0) heavyDoneThen = delivered.get(heavy).length;
  }
});

// A destination for each client, made as clients come; an equal weight each.
const definedMs = await timed(async () => {
  const left = [...names];
  const some = async () => {
    for (let name; (name = left.pop()); ) {
      await define(name, { url, transform: { kind: "worker" }, delivery: { batch_max: 50 } });
    }
  };
  await Promise.all(Array.from({ length: 16 }, some));
});

// The heavy client was there first, with everything.
const items = (client, count) =>
  Array.from({ length: count }, (_, item) => ({ destinations: [client], body: { item } }));
const sentMs = await timed(async () => {
  await sendAll(items(heavy, heavyCount));
  await sendAll(others.flatMap((client) => items(client, each)));
});
const queues = async () => (await reseq("GET", "/v1/stats")).destinations;
const listed = (await queues()).filter(({ name, pending }) => pending === (name === heavy ? heavyCount : each)).length;

let handled = 0;
async function handle({ body }) {
  handled += 1;
  await pause(2);
  return body;
}

/** A worker: serves all clients, a few messages at a time. */
async function serve(stop) {
  while (!stop.aborted) {
    const { leases } = await reseq("POST", "/v1/leases", { destinations: names, max: 25, wait_ms: 1000 });
    const completed = [];
    const failed = [];
    const attempt = (lease) =>
      handle(lease).then(
        (body) => completed.push({ token: lease.token, body }),
        (error) => failed.push({ token: lease.token, error: error.message }),
      );
    await Promise.all(leases.map(attempt));
    if (completed.length > 0) await reseq("POST", "/v1/leases/complete", { items: completed });
    if (failed.length > 0) await reseq("POST", "/v1/leases/fail", { items: failed });
  }
}

const stop = new AbortController();
const start = Date.now();
const running = Array.from({ length: workers }, () => serve(stop.signal));
await until("the others are through", () => heavyDoneThen !== undefined);
const othersMs = Date.now() - start;
await until("all is done", async () => (await queues()).every(({ pending }) => pending === 0), 600_000);
const allMs = Date.now() - start;
stop.abort();
await Promise.all(running);

const inOrder = ([, list]) => list.every((item, at) => item === at);
done({
  clients: names.length,
  listed,
  heavyDoneThen,
  heavyDone: delivered.get(heavy).length,
  othersDone: others.filter((client) => delivered.get(client).length === each).length,
  inOrder: [...delivered].every(inOrder),
  handled,
  ms: { definedMs, sentMs, othersMs, allMs },
});
