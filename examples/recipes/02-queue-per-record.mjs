// A queue for each of 100,000 records, made with its first update and gone with its last.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/02-queue-per-record.mjs
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { define, done, drained, reseq, sendAll, stats } from "./lib.mjs";

const records = Number(process.env.RECORDS ?? 100_000);
const inOneBurst = 1000;
const updatesOf = (record) => 1 + (record % 3);

// The receiver: a line is an update, and is answered by a line. For each record it expects the next
// number; one that it has already is a repeat, anything else would be out of order.
const last = new Uint8Array(records);
const seen = { taken: 0, repeats: 0, outOfOrder: 0 };
function take({ record, update }) {
  if (update <= last[record]) seen.repeats += 1;
  else if (update > last[record] + 1) seen.outOfOrder += 1;
  else {
    last[record] = update;
    seen.taken += 1;
  }
}
const server = createServer((socket) => {
  socket.on("error", () => socket.destroy());
  createInterface({ input: socket }).on("line", (line) => {
    take(JSON.parse(line));
    socket.write("OK\n");
  });
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));

await define("records", {
  url: `tcp://127.0.0.1:${server.address().port}`,
  ordering: "key", // a lane for each key that has something pending, and for no other
  delivery: { framing: "lines", ack: "line", lanes_max: 128 },
});

// The lanes that there are just now: those of the keys that have something pending.
async function lanes() {
  const keys = new Set();
  let cursor = "";
  do {
    const page = await reseq("GET", `/v1/destinations/records/messages?limit=1000${cursor}`);
    for (const message of page.items) keys.add(message.key);
    cursor = page.next_cursor ? `&cursor=${encodeURIComponent(page.next_cursor)}` : "";
  } while (cursor);
  return keys.size;
}

// Bursts: the updates of a thousand records, mixed: all first ones, all second ones, all third ones.
let sent = 0;
let lanesMax = 0;
for (let from = 0; from < records; from += inOneBurst) {
  const burst = Array.from({ length: Math.min(inOneBurst, records - from) }, (_, at) => from + at);
  const items = [1, 2, 3].flatMap((update) =>
    burst
      .filter((record) => update <= updatesOf(record))
      .map((record) => ({ destinations: ["records"], key: `record ${record}`, body: { record, update } })),
  );
  await sendAll(items);
  sent += items.length;
  if ((from / inOneBurst) % 20 === 0) {
    const now = await lanes();
    lanesMax = Math.max(lanesMax, now);
    console.log(JSON.stringify({ sent, delivered: seen.taken, lanes: now }));
  }
}
await drained("records");

const complete = last.filter((update, record) => update === updatesOf(record)).length;
const { delivered_total: delivered, ...left } = await stats("records");
done({ records, sent, ...seen, complete, lanesMax, lanesLeft: await lanes(), delivered, left });
