// Bank accounts: the withdrawals of one account one after the other and in order, different accounts
// in parallel, by a fixed pool of workers. Accounts come and go.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/07-bank-accounts.mjs
import { define, done, drained, pause, receiver, sendAll, worker } from "./lib.mjs";

const accounts = Number(process.env.ACCOUNTS ?? 200);
const withdrawals = Number(process.env.WITHDRAWALS ?? 3000);
const workers = 8;
const today = new Date().toISOString();

// What was decided, as the journal of the bank receives it.
const journal = [];
const { url } = await receiver(({ body, sequence }) => void journal.push({ ...body, sequence }));
await define("accounts", {
  url,
  ordering: "key", // a lane for each account that has something pending
  processing: "serial", // and of each lane one message at a time
  transform: { kind: "worker" },
});

// The balances: a row each in a database, here a map. `last` stands in the row too: an attempt that
// was made before (its worker died before it could say so) is recognised and not booked twice.
const rows = new Map();
const busy = new Set();
const seen = { atOnce: 0, overlaps: 0, negative: 0 };
async function book({ key, sequence, body: { kind, amount } }) {
  if (busy.has(key)) seen.overlaps += 1;
  busy.add(key);
  seen.atOnce = Math.max(seen.atOnce, busy.size);
  const row = rows.get(key) ?? { balance: 0, last: 0, answer: undefined };
  await pause(1 + Math.random() * 4); // reading, asking elsewhere, writing
  if (sequence > row.last) {
    const isCovered = kind === "open" || amount <= row.balance;
    const balance = row.balance + (kind === "open" ? amount : isCovered ? -amount : 0);
    if (balance < 0) seen.negative += 1;
    const answer = { account: key, kind, amount, isCovered, balance };
    if (kind === "close") rows.delete(key);
    else rows.set(key, { balance, last: sequence, answer });
    busy.delete(key);
    return answer;
  }
  busy.delete(key);
  return row.answer;
}
for (let number = 0; number < workers; number += 1) worker(["accounts"], book);

// Each account is opened, is drawn upon more often than it can bear, and is closed. Nobody tells Reseq
// which accounts there are; they begin one after the other, so that some come while others go. Five
// orders of an account come in a row: taken as they come, they would meet.
const each = Math.floor(withdrawals / accounts);
const life = (account) => [
  { kind: "open", amount: 500 },
  ...Array.from({ length: each }, (_, at) => ({ kind: "withdraw", amount: 10 + ((account * 37 + at * 53) % 90) })),
  { kind: "close", amount: 0 },
];
const orders = Array.from({ length: accounts }, (_, account) =>
  life(account).map((body, step) => {
    const idempotency_key = `${today} ${account} ${step}`;
    const item = { destinations: ["accounts"], key: `account ${account}`, idempotency_key, body };
    return { at: Math.floor(step / 5) + (account % 20), item };
  }),
);
await sendAll(orders.flat().sort((one, other) => one.at - other.at).map(({ item }) => item));
await drained("accounts");

// What one teller would have decided, working through each account alone.
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
  open: rows.size,
});
