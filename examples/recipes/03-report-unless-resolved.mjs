// An error is reported only if it is not resolved within 15 minutes.
//
//   RESEQ_URL=http://127.0.0.1:8080 DELAY_MS=3000 node examples/recipes/03-report-unless-resolved.mjs
//
// The parts also run as separate processes, as in production: `… notify` receives the notifications,
// `… report 1 2 3` reports errors, `… resolve 2` resolves some.
import { Retry } from "reseq";
import { done, drained, receiver, reseq, until } from "./lib.mjs";

const delay = Number(process.env.DELAY_MS ?? 15 * 60_000);
const [part = "all", ...named] = process.argv.slice(2);
const said = (line) => console.log(JSON.stringify(line));

// Notifies people. It is down when the first report comes; Reseq then delivers the report again.
async function notify(take) {
  let isDown = true;
  const { url } = await receiver(({ body, attempt }) => {
    if (isDown) {
      isDown = false;
      said({ refused: body.error });
      throw new Retry("the notifier is down", 0);
    }
    take(body.error, attempt);
  }, { ordering: "none" });
  await reseq.define("reports", {
    url,
    ordering: "none", // each leaves when it is due and waits for no other
    idempotency_window_ms: 0, // one report of an error at a time; when it is gone, a new one is possible
    delivery: { backoff_ms: 100, backoff_max_ms: 60_000 },
  });
}

// An error appears: send a delayed message with the error's id. While it is pending, the same error
// again changes nothing.
const report = (error) => reseq.send("reports", { error }, { idempotencyKey: error, delayMs: delay });

// The error is resolved: cancel its message. Returns false if this is not certain: people were notified,
// are being notified now, or the error was never reported.
const resolve = (error) => reseq.cancel("reports", { idempotencyKey: error });

const each = (errors, act) => Promise.all(errors.map(act));

async function everything() {
  const notified = [];
  await notify((error) => notified.push(error));
  const errors = Array.from({ length: 40 }, (_, number) => `error ${number}`);
  await each(errors, report);
  const again = await each(errors, report);
  const resolved = await each(errors.filter((_, number) => number % 2 === 0), resolve);
  // An error that was resolved appears again.
  const { duplicate } = await report(errors[0]);
  await until("all others are notified", () => notified.length > errors.length / 2, delay + 60_000);
  await drained("reports");
  done({
    reported: errors.length,
    reportedAgain: again.filter(({ duplicate }) => !duplicate).length,
    resolved: resolved.filter(Boolean).length,
    cameBack: !duplicate,
    notified: notified.length,
    different: new Set(notified).size,
  });
}

const parts = ["all", "notify", "report", "resolve"];
if (!parts.includes(part) || (["report", "resolve"].includes(part) && named.length === 0)) {
  console.error("usage: node 03-report-unless-resolved.mjs [all | notify | report ERROR … | resolve ERROR …]");
  process.exit(2);
}
if (part === "all") {
  console.error(`each report waits ${delay / 1000} s; DELAY_MS sets another delay`);
  await everything();
}
if (part === "notify") {
  await notify((error, attempt) => said({ notified: error, attempt }));
  said({ ready: true });
}
if (part === "report") done({ reports: await each(named, report) });
if (part === "resolve") done({ resolved: await each(named, resolve) });
