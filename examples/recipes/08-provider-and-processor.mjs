// A provider adds, lists and deletes entries while several processors work through them. A deleted entry
// never takes effect, an entry that took effect cannot be deleted, and nothing is lost or done twice.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/08-provider-and-processor.mjs
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Worker } from "reseq";
import { done, drained, listed, pause, receiver, reseq, until } from "./lib.mjs";

const count = Number(process.env.ENTRIES ?? 600);
const processors = Number(process.env.PROCESSORS ?? 3);
const today = new Date().toISOString();
const path = "/v1/destinations/entries/messages";

// A processor, in its own process, prepares entries. Its output takes effect when it is delivered.
if (process.argv[2] === "processor") {
  process.on("disconnect", () => process.exit());
  new Worker("entries", async ({ sequence, body }) => {
    const began = Date.now();
    await pause(3);
    process.send({ sequence, began });
    return { entry: body.entry, result: body.entry * 2 };
  }, { concurrency: 2 });
  await new Promise(() => {}); // until the provider ends
}

// Here results take effect, each once.
const effects = new Map();
let effectsTwice = 0;
const { url } = await receiver(({ sequence, body }) => {
  if (effects.has(sequence)) effectsTwice += 1;
  effects.set(sequence, body);
}, { ordering: "none" });
// Entries do not depend on each other, so there is no order.
await reseq.define("entries", { url, ordering: "none", transform: { kind: "worker" } });

const began = [];
const children = Array.from({ length: processors }, () => fork(fileURLToPath(import.meta.url), ["processor"]));
for (const child of children) child.on("message", (start) => began.push(start));

// The provider: adds, lists and deletes at the same time.
const keyOf = (entry) => `${today} ${entry}`;
const added = new Map();
async function add() {
  for (let entry = 1; entry <= count; entry += 1) {
    const { sequence } = await reseq.send("entries", { entry }, { idempotencyKey: keyOf(entry) });
    added.set(sequence, entry);
  }
}

let listings = 0;
let longest = 0;
const wanted = new Set();
const deleted = new Map();
const refused = [];
let isAdded = false;
async function listAndDelete() {
  while (!isAdded || (await list()).length > 0) {
    const items = await list();
    listings += 1;
    longest = Math.max(longest, items.length);
    // Some from the front, where the processors work, and some from the back.
    const some = new Set([...items.slice(0, 2), ...items.slice(-4)].map(({ sequence }) => sequence));
    await Promise.all([...some].filter((sequence) => !wanted.has(sequence)).map(remove));
    await pause(5);
  }
}
const list = () => listed(path);

/** Deletes an entry. The deletion is certain only when Reseq confirms it. */
async function remove(sequence) {
  wanted.add(sequence);
  // By its sequence, or by the key that it was added with.
  const key = sequence % 2 && added.has(sequence) && keyOf(added.get(sequence));
  const which = key ? `?idempotency_key=${encodeURIComponent(key)}` : `/${sequence}`;
  try {
    const { state } = await reseq.call("DELETE", path + which);
    // "withdrawing": a processor works on the entry, which leaves when that attempt ends.
    if (state === "cancelled") deleted.set(sequence, Date.now());
  } catch (error) {
    if (error.code !== "wrong_state") throw error;
    refused.push(sequence);
  }
}

const adding = add().then(() => (isAdded = true));
await Promise.all([adding, listAndDelete()]);
await drained("entries");

// The outcome of each entry, as Reseq reports it.
const fate = new Map();
for (const sequence of added.keys()) fate.set(sequence, (await reseq.message("entries", sequence)).state);
const having = (state) => [...fate].filter(([, its]) => its === state).map(([sequence]) => sequence);
// An entry that took effect cannot be deleted.
const late = await Promise.all(
  having("delivered").slice(0, 50).map((sequence) =>
    reseq.call("DELETE", `${path}/${sequence}`).then(() => "deleted", ({ status, code }) => `${status} ${code}`)),
);
await until("the processors have told everything", () => new Set(began.map(({ sequence }) => sequence)).size >= effects.size);
for (const child of children) child.kill();

done({
  added: added.size,
  delivered: having("delivered").length,
  cancelled: having("cancelled").length,
  effects: effects.size,
  effectsTwice,
  wrongEffects: [...effects].filter(([sequence, { entry, result }]) => added.get(sequence) !== entry || result !== entry * 2).length,
  effectsOfDeleted: [...deleted.keys()].filter((sequence) => effects.has(sequence)).length,
  effectsOfCancelled: having("cancelled").filter((sequence) => effects.has(sequence)).length,
  begunAfterDeletion: began.filter(({ sequence, began }) => began > deleted.get(sequence)).length,
  refusedButCancelled: refused.filter((sequence) => fate.get(sequence) !== "delivered").length,
  confirmed: deleted.size,
  refused: refused.length,
  late: [...new Set(late)],
  listings,
  longest,
});
