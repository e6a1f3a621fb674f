// Hit counters: recording a hit is cheap, batches of hits are added up together, and a counter that
// passes a threshold sends one mail.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/12-hit-counters.mjs
import { done, drained, receiver, reseq } from "./lib.mjs";

const hits = Number(process.env.HITS ?? 20_000);
const threshold = Number(process.env.THRESHOLD ?? 5000);
const today = new Date().toISOString();
const pages = ["home", "shop", "cart", "help", "jobs"];

const mails = [];
let askedForMail = 0;
const postOffice = await receiver(({ id, body }) => void mails.push({ id, ...body }));

// The counters. Each call gets the new hits of a batch; with a store in SQL, it is one transaction.
const counters = new Map();
let counted = 0;
let arrived = 0;
let requests = 0;
let lostAnswers = 0;
const count = async (hits) => {
  for (const { body } of hits) counters.set(body.page, (counters.get(body.page) ?? 0) + 1);
  counted += hits.length;
  // Several counters may request the mail, again and again: the key makes it one mail.
  for (const [page, total] of counters) {
    if (total < threshold) continue;
    askedForMail += 1;
    await reseq.send("mail", { page, threshold }, { idempotencyKey: `threshold ${page} ${today}` });
  }
};
// Sometimes the answer is lost, and the same messages come again.
const loses = ({ headers }) => {
  arrived += Number(headers["reseq-batch"]);
  const isLost = (requests += 1) % 10 === 3;
  if (isLost) lostAnswers += 1;
  return isLost;
};
const counter = await receiver(count, { batch: true, loses });

await reseq.define("mail", { url: postOffice.url });
const delivery = { batch_max: 500, batch_linger_ms: 50, backoff_ms: 20, backoff_max_ms: 100 };
await reseq.define("hits", { url: counter.url, delivery });

// The pages: all hits since the last flush are sent together. Only "home" passes the threshold.
const expected = Object.fromEntries(pages.map((page) => [page, page === "home" ? hits * 0.4 : hits * 0.15]));
const ofPage = (page) => Array.from({ length: expected[page] }, (_, hit) => ({ page, hit }));
const all = pages.flatMap(ofPage).sort((a, b) => a.hit - b.hit);
const items = all.map(({ page }) => ({ body: { page } }));
await reseq.sendBatch("hits", items);
await drained("hits");
await drained("mail");

done({ hits: items.length, counters: Object.fromEntries(counters), expected, requests, lostAnswers,
  repeatsSeen: arrived - counted, askedForMail, mails });
