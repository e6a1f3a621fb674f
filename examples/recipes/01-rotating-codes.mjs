// Orders from several instances, each exactly once, in order, with a short code 1 to 100 that no two
// open orders share.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/01-rotating-codes.mjs
import { define, done, drained, isBehind, placeOf, receiver, reseq, send, start } from "./lib.mjs";

const count = Number(process.env.ORDERS ?? 10_000);
const days = Number(process.env.DAYS ?? 1);
const instances = 12;
const customers = 2;
const codes = 100;
const today = new Date().toISOString();
const codeOf = (sequence) => ((sequence - 1) % codes) + 1;

// The kitchen: takes each order once, in order, and calls it out by its code. It knows repeats by the last
// place that it has taken, sequence and epoch: a destination that is made again counts from 1 again. In
// life the place is stored with the order, in one transaction.
const kitchen = { last: start, called: [], repeats: 0 };
const open = new Map();
let shared = 0;
const { url } = await receiver((order) => {
  if (!isBehind(order, kitchen.last)) {
    kitchen.repeats += 1;
    return;
  }
  kitchen.last = placeOf(order);
  kitchen.called.push(order.body.order);
  if (open.get(codeOf(order.sequence)) === order.sequence) open.delete(codeOf(order.sequence));
});

// Any number of instances take orders; an order that is sent again is the same order.
const place = async (order) => {
  const placed = await send("kitchen", { order }, { idempotency_key: `${today} ${order}` });
  const code = codeOf(placed.sequence);
  if (isBehind(placed, kitchen.last)) {
    if (open.has(code)) shared += 1;
    open.set(code, placed.sequence);
  }
  return { order, code };
};

const placed = [];
for (let day = 1; day <= days; day += 1) {
  // Each day begins with the code 1: the destination is removed and made again. At most as many orders
  // are open as there are codes: their sequences are neighbours, so no two of them have the same code.
  if (day > 1) await reseq("DELETE", "/v1/destinations/kitchen");
  await define("kitchen", { url, backlog_max: codes });
  // The instances, each with some customers at a time. They are faster than the kitchen: when all codes
  // are taken, an order waits for one.
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
