// A queue for each of 100,000 records. It exists from the first update until the last one is delivered.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/02-queue-per-record.mjs
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { done, drained, listed, reseq } from "./lib.mjs";

const records = Number(process.env.RECORDS ?? 100_000);
const inOneBurst = 1000;
const updatesOf = (record) => 1 + (record % 3);

// The receiver: each line is an update, and it answers each with a line. It expects the next number of
// each record. A number that it already has is a repeat; any other number would be out of order.
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
  const lines = createInterface({ input: socket });
  lines.on("error", () => {}); // the connection broke: Reseq sends again
  lines.on("line", (line) => {
    take(JSON.parse(line));
    socket.write("OK\n");
  });
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));

await reseq.define("records", {
  url: `tcp://127.0.0.1:${server.address().port}`,
  ordering: "key", // a lane for each key that has pending messages
  delivery: { framing: "lines", ack: "line", lanes_max: 128 },
});

// The lanes that exist now: one for each key that has pending messages.
async function lanes() {
  const messages = await listed("/v1/destinations/records/messages");
  return new Set(messages.map(({ key }) => key)).size;
}

// Bursts: the updates of a thousand records, interleaved: first all first updates, then all second ones,
// then all third ones.
let sent = 0;
let lanesMax = 0;
for (let from = 0; from < records; from += inOneBurst) {
  const burst = Array.from({ length: Math.min(inOneBurst, records - from) }, (_, at) => from + at);
  const items = [1, 2, 3].flatMap((update) =>
    burst
      .filter((record) => update <= updatesOf(record))
      .map((record) => ({ key: `record ${record}`, body: { record, update } })),
  );
  await reseq.sendBatch("records", items);
  sent += items.length;
  if ((from / inOneBurst) % 20 === 0) {
    const now = await lanes();
    lanesMax = Math.max(lanesMax, now);
    console.log(JSON.stringify({ sent, delivered: seen.taken, lanes: now }));
  }
}
await drained("records");

const complete = last.filter((update, record) => update === updatesOf(record)).length;
const { delivered_total: delivered, ...left } = await reseq.stats("records");
done({ records, sent, ...seen, complete, lanesMax, lanesLeft: await lanes(), delivered, left });
