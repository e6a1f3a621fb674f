// Bank accounts: the withdrawals of one account happen one after the other and in order, those of
// different accounts in parallel, with a fixed number of workers. Accounts come and go.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/07-bank-accounts.mjs
import { Worker, comparePositions } from "reseq";
import { done, drained, pause, receiver, reseq } from "./lib.mjs";

const accounts = Number(process.env.ACCOUNTS ?? 200);
const withdrawals = Number(process.env.WITHDRAWALS ?? 3000);
const parts = Number(process.env.PARTS ?? 1); // after each, the destination is removed and created again
const workers = 8;
const today = new Date().toISOString();

// The decisions, as the bank's journal receives them: each entry once.
const journal = [];
const { url } = await receiver(({ body }) => void journal.push(body));
const accountsQueue = {
  url,
  ordering: "key", // a lane for each account that has pending messages
  processing: "serial", // one message of each lane at a time
  transform: { kind: "worker" },
};

// The balances: in a database, one row each; here, a map. The row also has `last`, the position of the
// last booking, which is written with the balance. So if a worker dies after it booked and before it
// reported it, the next worker recognises the message and does not book it twice. A position has an
// epoch, because a destination that is removed and created again counts from 1 again. The row of a closed
// account stays for the same reason.
const rows = new Map();
const busy = new Set();
const seen = { atOnce: 0, overlaps: 0, negative: 0 };
async function book(message) {
  const { key, body: { kind, amount } } = message;
  if (busy.has(key)) seen.overlaps += 1;
  busy.add(key);
  seen.atOnce = Math.max(seen.atOnce, busy.size);
  const row = rows.get(key) ?? { balance: 0, last: { epoch: 0, sequence: 0 } };
  await pause(1 + Math.random() * 4); // reading, calling other services, writing
  if (comparePositions(message, row.last) > 0) {
    const isCovered = kind === "open" || amount <= row.balance;
    const balance = row.balance + (kind === "open" ? amount : isCovered ? -amount : 0);
    if (balance < 0) seen.negative += 1;
    const answer = { account: key, kind, amount, isCovered, balance };
    rows.set(key, { balance, last: { epoch: message.epoch, sequence: message.sequence }, answer, isOpen: kind !== "close" });
    busy.delete(key);
    return answer;
  }
  busy.delete(key);
  return row.answer;
}
await reseq.define("accounts", accountsQueue);
new Worker("accounts", book, { reseq, concurrency: workers });

// Each account is opened, gets more withdrawals than its balance covers, and is closed. Reseq needs no
// list of accounts; they start one after the other, so that some come while others go. Five messages of
// an account arrive in a row: without serial processing, workers would process them at the same time.
const each = Math.floor(withdrawals / accounts);
const life = (account) => [
  { kind: "open", amount: 500 },
  ...Array.from({ length: each }, (_, at) => ({ kind: "withdraw", amount: 10 + ((account * 37 + at * 53) % 90) })),
  { kind: "close", amount: 0 },
];
const orders = Array.from({ length: accounts }, (_, account) =>
  life(account).map((body, step) => {
    const item = { key: `account ${account}`, idempotencyKey: `${today} ${account} ${step}`, body };
    const part = Math.floor((step * parts) / (each + 2));
    return { at: Math.floor(step / 5) + (account % 20), part, item };
  }),
);
const sorted = orders.flat().sort((one, other) => one.at - other.at);
for (let part = 0; part < parts; part += 1) {
  if (part > 0) {
    await reseq.call("DELETE", "/v1/destinations/accounts");
    await reseq.define("accounts", accountsQueue);
  }
  await reseq.sendBatch("accounts", sorted.filter((one) => one.part === part).map(({ item }) => item));
  await drained("accounts");
}

// The expected decisions: those of one teller who handles one account after the other.
let wrong = 0;
for (let account = 0; account < accounts; account += 1) {
  let balance = 0;
  const decided = journal.filter((entry) => entry.account === `account ${account}`);
  life(account).forEach(({ kind, amount }, step) => {
    const isCovered = kind === "open" || amount <= balance;
    balance += kind === "open" ? amount : isCovered ? -amount : 0;
    const entry = decided[step];
    if (entry?.kind !== kind || entry.isCovered !== isCovered || entry.balance !== balance) wrong += 1;
  });
}
const drawn = journal.filter(({ kind }) => kind === "withdraw");
done({
  withdrawals: drawn.length,
  refused: drawn.filter(({ isCovered }) => !isCovered).length,
  wrong,
  ...seen,
  open: [...rows.values()].filter(({ isOpen }) => isOpen).length,
});
