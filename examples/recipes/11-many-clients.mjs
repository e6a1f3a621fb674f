// Many clients, one of them heavy, and some workers: each client has a destination of its own, and the
// claims go round them. The heavy one does not starve the others.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/11-many-clients.mjs
import { define, done, pause, receiver, reseq, sendAll, until, worker } from "./lib.mjs";

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
const othersLeft = { count: others.length * each };
let heavyDoneThen;
const { url } = await receiver(({ headers, sequence, body }) => {
  const client = headers["reseq-destination"];
  if (sequence <= delivered.get(client).length) return;
  delivered.get(client).push(body.item);
  if (client !== heavy && (othersLeft.count -= 1) === 0) heavyDoneThen = delivered.get(heavy).length;
});

// A destination for each client, made as clients come; an equal weight each.
const definedMs = await timed(async () => {
  const left = [...names];
  const some = async () => {
    for (let name; (name = left.pop()); ) await define(name, { url, transform: { kind: "worker" } });
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

// Each worker serves all clients.
const stop = new AbortController();
let handled = 0;
const handle = async ({ body }) => {
  handled += 1;
  await pause(2);
  return body;
};
const start = Date.now();
let othersMs;
const running = Array.from({ length: workers }, () => worker(names, handle, { max: 8, stop: stop.signal }));
await until("the others are through", () => heavyDoneThen !== undefined);
othersMs = Date.now() - start;
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
