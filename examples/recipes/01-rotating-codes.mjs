// Several instances take orders. Each order is prepared exactly once, in order, under a short code
// from 1 to 100. No two open orders share a code.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/01-rotating-codes.mjs
import { comparePositions } from "reseq";
import { done, drained, receiver, reseq } from "./lib.mjs";

const count = Number(process.env.ORDERS ?? 10_000);
const days = Number(process.env.DAYS ?? 1);
const instances = 12;
const customers = 2;
const codes = 100;
const today = new Date().toISOString();
const codeOf = (sequence) => ((sequence - 1) % codes) + 1;

// The kitchen takes each order once, in order, and calls it out by its code.
const kitchen = { last: { epoch: 0, sequence: 0 }, called: [] };
const open = new Map();
let shared = 0;
const { url } = await receiver((order) => {
  kitchen.last = order;
  kitchen.called.push(order.body.order);
  if (open.get(codeOf(order.sequence)) === order.sequence) open.delete(codeOf(order.sequence));
});

// Any number of instances take orders. An order that is sent again is the same order. While all codes are in
// use, Reseq answers 429, and the client waits.
const place = async (order) => {
  const placed = await reseq.send("kitchen", { order }, { idempotencyKey: `${today} ${order}` });
  const code = codeOf(placed.sequence);
  if (comparePositions(placed, kitchen.last) > 0) {
    if (open.has(code)) shared += 1;
    open.set(code, placed.sequence);
  }
  return { order, code };
};

const placed = [];
for (let day = 1; day <= days; day += 1) {
  // Each day starts with code 1: the destination is removed and created again. There are at most as many
  // open orders as codes, and their sequences are consecutive, so no two of them have the same code.
  if (day > 1) await reseq.call("DELETE", "/v1/destinations/kitchen");
  await reseq.define("kitchen", { url, backlog_max: codes });
  // The instances, each with some customers at a time. They are faster than the kitchen: when all codes
  // are in use, an order waits for a free one.
  let next = 0;
  const customer = async () => {
    while (next < count) placed.push(await place(`${day}-${next++}`));
  };
  await Promise.all(Array.from({ length: instances * customers }, customer));
  await drained("kitchen");
}

done({
  placed: placed.length,
  called: kitchen.called.length,
  once: new Set(kitchen.called).size,
  shared,
  codes: [Math.min(...placed.map(({ code }) => code)), Math.max(...placed.map(({ code }) => code))],
  perCode: [...new Set(placed.map(({ code }) => placed.filter((one) => one.code === code).length))],
});
