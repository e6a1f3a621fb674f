// Many clients, one of them heavy, and some workers. Each client has its own destination, and claims take
// messages from them in turn. The heavy client does not starve the others.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/11-many-clients.mjs
import { Worker } from "reseq";
import { done, listed, pause, receiver, reseq, until } from "./lib.mjs";

const clients = Number(process.env.CLIENTS ?? 1000);
const heavyCount = Number(process.env.HEAVY ?? 5000);
const each = Number(process.env.EACH ?? 3);
const workers = Number(process.env.WORKERS ?? 24);
const rounds = Number(process.env.ROUNDS ?? 1); // after each, the destinations are removed and created again
const names = Array.from({ length: clients }, (_, at) => `client-${String(at).padStart(4, "0")}`);
const [heavy, ...others] = names;
const timed = async (what) => {
  const began = Date.now();
  await what();
  return Date.now() - began;
};

const delivered = new Map(names.map((name) => [name, []]));
let othersLeft = others.length * each;
let heavyDoneThen;
const { url } = await receiver(({ destination, body }) => {
  delivered.get(destination).push(body.item);
  if (destination !== heavy && (othersLeft -= 1) === 0) heavyDoneThen = delivered.get(heavy).length;
});

// A destination for each client, created when the client comes; all have the same weight.
const eachClient = async (act) => {
  const left = [...names];
  const some = async () => {
    for (let name; (name = left.pop()); ) await act(name);
  };
  await Promise.all(Array.from({ length: 16 }, some));
};
const defineAll = () =>
  eachClient((name) => reseq.define(name, { url, transform: { kind: "worker" }, delivery: { batch_max: 50 } }));
const definedMs = await timed(defineAll);

// The heavy client sends all its messages first.
const sendAll = (client, count, round) =>
  reseq.sendBatch(client, Array.from({ length: count }, (_, at) => ({ body: { item: round * count + at } })));
async function sendEverything(round) {
  await sendAll(heavy, heavyCount, round);
  await Promise.all(others.map((client) => sendAll(client, each, round)));
}
const sentMs = await timed(() => sendEverything(0));
// Only the clients' queues: Reseq may have other destinations.
const isOurs = new Set(names);
const queues = async () => (await listed("/v1/stats")).filter(({ name }) => isOurs.has(name));
const isWhole = ({ name, pending }) => pending === (name === heavy ? heavyCount : each);
const listedWhole = (await queues()).filter(isWhole).length;

let handled = 0;
async function handle({ body }) {
  handled += 1;
  await pause(2);
  return body;
}

// Each worker serves all clients, some messages at a time. It leases none ahead, so that others can have them.
const began = Date.now();
const running = Array.from({ length: workers }, () => new Worker(names, handle, { reseq, concurrency: 25, prefetchMax: 0 }));
await until("the others are through", () => heavyDoneThen !== undefined, 600_000);
const othersMs = Date.now() - began;
const allDone = () => until("all is done", async () => (await queues()).every(({ pending }) => pending === 0), 600_000);
await allDone();
const allMs = Date.now() - began;
for (let round = 1; round < rounds; round += 1) {
  await eachClient((name) => reseq.call("DELETE", `/v1/destinations/${name}`));
  await defineAll();
  await sendEverything(round);
  await allDone();
}
await Promise.all(running.map((worker) => worker.close()));

const inOrder = ([, list]) => list.every((item, at) => item === at);
done({
  clients: names.length,
  listed: listedWhole,
  heavyDoneThen,
  heavyDone: delivered.get(heavy).length,
  othersDone: others.filter((client) => delivered.get(client).length === rounds * each).length,
  inOrder: [...delivered].every(inOrder),
  handled,
  ms: { definedMs, sentMs, othersMs, allMs },
});
