// Each recipe while Redis and all pods are killed under it, and start again. It ends by itself, with the right result.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Reseq } from "reseq";
import { Deployment, until } from "../support/processes.mjs";

const folder = fileURLToPath(new URL("../../../../examples/recipes/", import.meta.url));

process.setMaxListeners(50);

/** Starts a recipe. `ended` resolves with its status, its lines and its errors. */
function cook(recipe, args, urls, settings) {
  const env = { ...process.env, ...settings, RESEQ_URL: urls.join() };
  const child = spawn(process.execPath, [folder + recipe, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  const said = { out: "", err: "" };
  child.stdout.on("data", (text) => (said.out += text));
  child.stderr.on("data", (text) => (said.err += text));
  process.on("exit", () => child.kill("SIGKILL"));
  return { child, said, ended: new Promise((resolve) => child.once("exit", resolve)) };
}

/** Kills Redis and all pods when a destination has had `count` messages. */
async function killAll(deployment, destination, count) {
  const reseq = new Reseq({ url: deployment.urls });
  await until(`${destination} has had ${count} messages`, () => reseq.stats(destination).then(({ last_sequence }) => last_sequence >= count, () => false));
  reseq.close();
  const all = [deployment.redis, ...deployment.pods];
  await Promise.all(all.map((one) => one.kill()));
  for (const one of all) one.spawn();
  await deployment.ready();
}

const recipes = [
  ["00-webhook-to-erp.mjs", { EVENTS: 40, WORK_MS: 300 }, "erp", 15, ({ booked, different, inOrder, deadLetters }) => assert.deepEqual([booked, different, inOrder, deadLetters], [39, 39, true, 1])],
  ["01-rotating-codes.mjs", { ORDERS: 400 }, "kitchen", 150, ({ called, once, shared }) => assert.deepEqual([called, once, shared], [400, 400, 0])],
  ["02-queue-per-record.mjs", { RECORDS: 3000 }, "records", 2500, ({ taken, complete, outOfOrder }) => assert.deepEqual([taken, complete, outOfOrder], [6000, 3000, 0])],
  ["03-report-unless-resolved.mjs", { DELAY_MS: 6000 }, "reports", 40, ({ notified, different }) => assert.equal(notified, different)],
  ["04-mail-by-size-and-priority.mjs", {}, "mail", 100, ({ posted, different }) => assert.deepEqual([posted, different], [145, 145])],
  ["05-two-consumers.mjs", { FAST: 600 }, "tasks", 20, ({ finished }) => assert.equal(finished, 640)],
  ["06-running-and-waiting.mjs", { LEASE_MS: 30_000, JOB_MS: 1000 }, "jobs", 20, ({ different, results }) => assert.deepEqual([different, results], [20, 21])],
  ["07-bank-accounts.mjs", { ACCOUNTS: 50, WITHDRAWALS: 600 }, "accounts", 200, ({ withdrawals, wrong, negative, open }) => assert.deepEqual([withdrawals, wrong, negative, open], [600, 0, 0, 0])],
  ["08-provider-and-processor.mjs", { ENTRIES: 300 }, "entries", 50, ({ added, wrongEffects, effectsTwice }) => assert.deepEqual([added, wrongEffects, effectsTwice], [300, 0, 0])],
  ["09-two-resources-or-none.mjs", { TAKES: 10 }, "resources", 10, ({ shared, left, through }) => assert.deepEqual([shared, left, through], [0, 9, 20])],
  ["11-many-clients.mjs", { CLIENTS: 50, HEAVY: 500, WORKERS: 4 }, "client-0000", 500, ({ heavyDone, othersDone, inOrder }) => assert.deepEqual([heavyDone, othersDone, inOrder], [500, 49, true])],
  ["12-hit-counters.mjs", { HITS: 5000, THRESHOLD: 1000 }, "hits", 5000, ({ counters, expected, mails }) => assert.deepEqual([counters, mails.length], [expected, 1])],
  ["13-booking.mjs", { BOOKINGS: 100 }, "payment", 30, ({ bookings, doubled, twice, did }) => assert.deepEqual([bookings, doubled, twice, did.invoice], [100, 0, 0, 100])],
  ["14-retry-and-dead-letters.mjs", {}, "letters", 100, ({ retry, letters, halt }) => assert.deepEqual([retry.took.length, letters.after, halt.took.length], [100, [10, 35, 60, 85], 100])],
  ["15-schedules.mjs", { COUNT: 200, KILLS: 10 }, "hourly", 60, ({ arrived, eachOnce, early }) => assert.deepEqual([arrived, eachOnce, early], [200, true, 0])],
];

for (const [recipe, settings, destination, count, check] of recipes) {
  test(recipe, async () => {
    const deployment = await Deployment.start({ pods: 2 });
    const { said, ended } = cook(recipe, [], deployment.urls, settings);
    await Promise.race([killAll(deployment, destination, count), ended.then((status) => assert.fail(`it ended with ${status} before the kill: ${said.err}`))]);
    assert.equal(await ended, 0, said.err);
    check(JSON.parse(said.out.trim().split("\n").at(-1)));
    await deployment.stop();
  });
}

test("10-long-import.mjs", async () => {
  const deployment = await Deployment.start({ pods: 2 });
  const file = join(mkdtempSync(join(tmpdir(), "reseq-import-")), "lines");
  writeFileSync(file, Array.from({ length: 20_000 }, (_, at) => `line ${at + 1}\n`).join(""));
  const imports = cook("10-long-import.mjs", ["import", file], deployment.urls, {});
  const first = cook("10-long-import.mjs", ["worker"], deployment.urls, { LEASE_MS: 3000 });
  await until("it is in the middle", () => first.said.out.split("\n").length > 30);
  await killAll(deployment, "imports", 1);
  const lines = first.said.out.length;
  await until("it goes on", () => first.said.out.length > lines);
  first.child.kill("SIGKILL");
  const second = cook("10-long-import.mjs", ["worker"], deployment.urls, { LEASE_MS: 3000 });
  assert.equal(await imports.ended, 0, imports.said.err);
  const { imported, once, calls } = JSON.parse(imports.said.out.trim().split("\n").at(-1));
  assert.deepEqual([imported, once], [20_000, 20_000]);
  assert.deepEqual([...calls].sort((one, other) => one - other), calls);
  second.child.kill();
  await deployment.stop();
});
