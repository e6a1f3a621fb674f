// E-mail with attachments: large mails do not delay small ones, and urgent mails go first.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/04-mail-by-size-and-priority.mjs
import { Worker } from "reseq";
import { done, drained, pause, receiver, reseq, until } from "./lib.mjs";

const bigFrom = 1_000_000; // bytes of attachments
const bytesPerMs = Number(process.env.BYTES_PER_MS ?? 5_000); // how fast attachments are read and encoded

// The mail server: records the mails that it gets, in order.
const posted = [];
const { url } = await receiver(({ body }) => void posted.push(body), { ordering: "none" });

// Two queues with one rule: no order within them, the highest priority first.
const mails = { url, ordering: "none", transform: { kind: "worker" } };
await reseq.define("mail", mails);
await reseq.define("mail-big", mails);

// A program that has a mail to send queues it here and continues. Attachments stay where they are: the
// message holds only their size and location.
const post = (mail, priority) => {
  const bytes = mail.attachments.reduce((sum, { size }) => sum + size, 0);
  return reseq.send(bytes < bigFrom ? "mail" : "mail-big", { ...mail, priority }, { priority });
};
const small = (subject) => ({ subject, attachments: [{ file: "logo.png", size: 20_000 }] });
const big = (subject) => ({ subject, attachments: [{ file: "plans.pdf", size: 10_000_000 }] });

// Builds a mail: the larger the attachments, the longer it takes.
const claimed = [];
async function build({ body: mail }) {
  claimed.push(mail);
  await pause(mail.attachments.reduce((sum, { size }) => sum + size, 0) / bytesPerMs);
  return { ...mail, built: true };
}

// Mails of all priorities wait when the first two workers start.
const waiting = await Promise.all(Array.from({ length: 100 }, (_, at) => post(small(`newsletter ${at}`), (at * 7) % 10)));
// This worker takes any mail, two at a time. Large mails take much longer than small ones, so it leases none ahead.
new Worker(["mail", "mail-big"], build, { reseq, concurrency: 2, prefetchMax: 0 });
await drained("mail");
const priorities = claimed.map(({ priority }) => priority);
const inOrder = priorities.every((priority, at) => at === 0 || priority <= priorities[at - 1]);
// This worker takes only small mails, so one worker is always free for them.
new Worker("mail", build, { reseq, concurrency: 2 });

// More large mails than workers; while they are built, small ones arrive.
const from = posted.length;
for (let at = 0; at < 5; at += 1) await post(big(`big ${at}`), 9);
await until("two big ones are being built", async () => (await reseq.stats("mail-big")).processing === 2);
await Promise.all(Array.from({ length: 40 }, (_, at) => post(small(`small ${at}`), 4)));
await drained("mail");
await drained("mail-big");

const subjects = posted.slice(from).map(({ subject }) => subject);
const firstBig = subjects.findIndex((subject) => subject.startsWith("big"));
done({
  waited: waiting.length,
  inOrder,
  priorities: [...new Set(priorities)],
  posted: posted.length,
  different: new Set(posted.map(({ subject }) => subject)).size,
  smallBeforeFirstBig: firstBig,
  big: subjects.length - subjects.filter((subject) => subject.startsWith("small")).length,
});
