// Many clients, one of them heavy, and some workers. Each client has its own destination, and claims take
// messages from them in turn. The heavy client does not starve the others.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/11-many-clients.mjs
import {
  define, done, hold, isBehind, leased, listed, pause, placeOf, receiver, reseq, sendAll, start, until,
} from "./lib.mjs";

const clients = Number(process.env.CLIENTS ?? 1000);
const heavyCount = Number(process.env.HEAVY ?? 5000);
const each = Number(process.env.EACH ?? 3);
const workers = Number(process.env.WORKERS ?? 24);
const rounds = Number(process.env.ROUNDS ?? 1); // after each, the destinations are removed and created again
const leaseMs = 30_000;
const names = Array.from({ length: clients }, (_, at) => `client-${String(at).padStart(4, "0")}`);
const [heavy, ...others] = names;
const timed = async (what) => {
  const began = Date.now();
  await what();
  return Date.now() - began;
};

const delivered = new Map(names.map((name) => [name, []]));
// The last position of each client: sequence and epoch, because a destination that is created again counts
// from 1 again.
const last = new Map(names.map((name) => [name, start]));
let othersLeft = others.length * each;
let heavyDoneThen;
const { url } = await receiver(({ headers, body: batch }) => {
  const client = headers["reseq-destination"];
  for (const message of batch) {
    if (!isBehind(message, last.get(client))) continue;
    last.set(client, placeOf(message));
    delivered.get(client).push(message.body.item);
    if (client !== heavy && (othersLeft -= 1) === 0) heavyDoneThen = delivered.get(heavy).length;
  }
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
  eachClient((name) => define(name, { url, transform: { kind: "worker" }, delivery: { batch_max: 50 } }));
const definedMs = await timed(defineAll);

// The heavy client sends all its messages first.
const items = (client, count, round) =>
  Array.from({ length: count }, (_, at) => ({ destinations: [client], body: { item: round * count + at } }));
async function sendEverything(round) {
  await sendAll(items(heavy, heavyCount, round));
  await sendAll(others.flatMap((client) => items(client, each, round)));
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

/** A worker serves all clients, a few messages at a time, and extends its leases meanwhile. */
async function serve(stop) {
  while (!stop.aborted) {
    const leases = await leased({ destinations: names, max: 25, wait_ms: 1000, lease_ms: leaseMs });
    const held = hold(leases.map(({ token }) => token), leaseMs);
    const completed = [];
    const failed = [];
    const attempt = (lease) =>
      handle(lease).then(
        (body) => completed.push({ token: lease.token, body }),
        (error) => failed.push({ token: lease.token, error: error.message }),
      );
    await Promise.all(leases.map(attempt));
    // Repeats the call until Reseq answers. Reseq ignores messages that another worker has by now.
    if (completed.length > 0) await reseq("POST", "/v1/leases/complete", { items: completed });
    if (failed.length > 0) await reseq("POST", "/v1/leases/fail", { items: failed });
    held.release();
  }
}

const stop = new AbortController();
const began = Date.now();
const running = Array.from({ length: workers }, () => serve(stop.signal));
await until("the others are through", () => heavyDoneThen !== undefined);
const othersMs = Date.now() - began;
const allDone = () => until("all is done", async () => (await queues()).every(({ pending }) => pending === 0), 600_000);
await allDone();
const allMs = Date.now() - began;
for (let round = 1; round < rounds; round += 1) {
  await eachClient((name) => reseq("DELETE", `/v1/destinations/${name}`));
  await defineAll();
  await sendEverything(round);
  await allDone();
}
stop.abort();
await Promise.all(running);

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
