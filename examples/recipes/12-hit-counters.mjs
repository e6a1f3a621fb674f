// Hit counters: recording a hit is cheap, batches of hits are added up together, and a counter that
// passes a threshold sends one mail.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/12-hit-counters.mjs
import { define, done, drained, isBehind, placeOf, receiver, send, sendAll, start } from "./lib.mjs";

const hits = Number(process.env.HITS ?? 20_000);
const threshold = Number(process.env.THRESHOLD ?? 5000);
const today = new Date().toISOString();
const pages = ["home", "shop", "cart", "help", "jobs"];

const mails = [];
let askedForMail = 0;
const postOffice = await receiver(({ id, body }) => {
  if (!mails.some((mail) => mail.id === id)) mails.push({ id, ...body });
});

// The counters, and the position of the last hit that they include. Write both in one transaction.
const counters = new Map();
let last = start;
let requests = 0;
let lostAnswers = 0;
let repeatsSeen = 0;
const counter = await receiver(async ({ body: batch }) => {
  requests += 1;
  const fresh = batch.filter((hit) => isBehind(hit, last));
  repeatsSeen += batch.length - fresh.length;
  for (const hit of fresh) {
    counters.set(hit.body.page, (counters.get(hit.body.page) ?? 0) + 1);
    last = placeOf(hit);
  }
  // Several counters may request the mail, again and again: the key makes it one mail.
  for (const [page, count] of counters) {
    if (count < threshold) continue;
    askedForMail += 1;
    await send("mail", { page, threshold }, { idempotency_key: `threshold ${page} ${today}` });
  }
  // Sometimes the answer is lost, and the same messages come again.
  if (requests % 10 === 3) {
    lostAnswers += 1;
    return { status: 503 };
  }
});

await define("mail", { url: postOffice.url });
const delivery = { batch_max: 500, batch_linger_ms: 50, backoff_ms: 20, backoff_max_ms: 100 };
await define("hits", { url: counter.url, delivery });

// The pages: all hits since the last flush are sent together. Only "home" passes the threshold.
const expected = Object.fromEntries(pages.map((page) => [page, page === "home" ? hits * 0.4 : hits * 0.15]));
const ofPage = (page) => Array.from({ length: expected[page] }, (_, hit) => ({ page, hit }));
const all = pages.flatMap(ofPage).sort((a, b) => a.hit - b.hit);
const items = all.map(({ page }) => ({ destinations: ["hits"], body: { page } }));
await sendAll(items, 1000);
await drained("hits");
await drained("mail");

done({ hits: items.length, counters: Object.fromEntries(counters), expected, requests, lostAnswers,
  repeatsSeen, askedForMail, mails });
