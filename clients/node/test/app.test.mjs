// An application as users write it, with each SQL store: two pods, Redis and the application are killed again and again.
// What it was told to do is complete, in order for each key, and done once.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Reseq } from "reseq";
import { postgresPrograms, startPostgres } from "./support/postgres.mjs";
import { Deployment, Restartable, freePort, until } from "./support/processes.mjs";

const ROUNDS = Number(process.env.STORM_ROUNDS ?? 2);
const MESSAGES = Math.ceil(Number(process.env.STORM_MESSAGES ?? 1000) / 10);
const KEYS = 10;
const script = fileURLToPath(new URL("support/app.mjs", import.meta.url));

async function storm(t, kind, where, deployment, instances) {
  const apps = [];
  for (let at = 0; at < instances; at += 1) {
    const port = await freePort();
    const app = new Restartable(process.execPath, [script, kind, where, String(port)], join(deployment.dir, `app-${at}.log`), { RESEQ_URL: deployment.urls.join() });
    apps.push(Object.assign(app, { url: `http://127.0.0.1:${port}` }));
  }
  const reseq = new Reseq({ url: deployment.urls, retryMs: Infinity });
  t.after(async () => {
    await Promise.all(apps.map((app) => app.kill()));
    reseq.close();
  });
  const delivery = { backoff_ms: 20, backoff_max_ms: 200 };
  // One instance gets the deliveries: those of the other come through its consumer.
  await reseq.define("orders", { url: `${apps[0].url}/in`, ordering: "key", transform: { kind: "worker", backoff_ms: 20, stalls_max: 0 }, delivery: { ...delivery, timeout_ms: 5000 } });
  await reseq.define("letters", { ordering: "key", delivery: { kind: "pull", ...delivery, timeout_ms: 2000 } });
  for (const app of apps) app.spawn();

  const asked = (path, options) => {
    const { url } = apps[Math.floor(Math.random() * apps.length)];
    return fetch(url + path, { signal: AbortSignal.timeout(10_000), ...options }).then((answer) => (answer.ok ? answer.json() : undefined), () => undefined);
  };
  const count = async () => Number((await until("the application answers", () => asked("/count")))[0].count);
  const order = (number) => {
    const body = JSON.stringify({ number, key: `key ${number % KEYS}` });
    return until(`order ${number} is taken`, () => asked("/orders", { method: "POST", headers: { "content-type": "application/json" }, body }));
  };
  const victims = { redis: deployment.redis, "pod 1": deployment.pods[0], "pod 2": deployment.pods[1], ...Object.fromEntries(apps.map((app, at) => [`application ${at + 1}`, app])) };

  for (let round = 1; round <= ROUNDS; round += 1) {
    const before = (round - 1) * MESSAGES;
    // The orders of a key one after the other: only so have they an order.
    const producing = Promise.all(Array.from({ length: KEYS }, async (_, key) => {
      for (let number = before + ((key - before) % KEYS + KEYS) % KEYS; number < before + MESSAGES; number += KEYS) await order(number);
    }));
    const names = Object.keys(victims).sort(() => Math.random() - 0.5);
    for (const [at, name] of names.entries()) {
      const part = 2 * before + (2 * MESSAGES * (at + 1)) / (names.length + 2);
      await until(`${part} are applied before ${name} dies`, async () => (await count()) >= part);
      await victims[name].kill();
      victims[name].spawn();
    }
    await producing;
    await until("all are applied", async () => (await count()) >= 2 * (before + MESSAGES)).catch(async (error) => {
      throw new Error(`${await count()} of ${2 * (before + MESSAGES)} are applied:\n${await deployment.state(["orders", "letters"])}\n${apps.map((app) => readFileSync(app.log, "utf8")).join("\n")}`, { cause: error });
    });
  }
  const rows = await until("the application answers", () => asked("/applied"));
  const numbers = Array.from({ length: ROUNDS * MESSAGES }, (_, number) => number);
  for (const what of ["order", "letter"]) {
    for (let key = 0; key < KEYS; key += 1) {
      const found = rows.filter((row) => row.what === what && row.lane === `key ${key}`).map(({ number }) => number);
      assert.deepEqual(found, numbers.filter((number) => number % KEYS === key), `${what} of key ${key}`);
    }
  }
  assert.equal(rows.length, 2 * ROUNDS * MESSAGES);
}

test(`an application with SQLite: ${ROUNDS} rounds of kills`, async (t) => {
  const deployment = await Deployment.start({ pods: 2 });
  t.after(() => deployment.stop());
  await storm(t, "sqlite", join(deployment.dir, "applied.db"), deployment, 1);
});

test(`an application with PostgreSQL, twice: ${ROUNDS} rounds of kills`, async (t) => {
  const programs = postgresPrograms();
  if (!programs) return t.skip("there is no PostgreSQL: scripts/setup.sh tests installs it where there is apt-get");
  const deployment = await Deployment.start({ pods: 2 });
  const { server, url } = await startPostgres(programs, deployment.dir);
  t.after(async () => {
    await server.kill("SIGINT");
    await deployment.stop();
  });
  await storm(t, "postgres", url, deployment, 2);
});
