// SIGKILL of the pods, of Redis, of the worker and of the receiver while messages are on their way. Nothing is lost,
// the order of each key is exact, and with SQL nothing is applied twice. Meanwhile producers wait for outputs of a
// destination with a rate, whose worker asks for many messages later: each gets its own output.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Reseq } from "reseq";
import { Deployment, Restartable, freePort, until } from "./support/processes.mjs";

const ROUNDS = Number(process.env.STORM_ROUNDS ?? 1);
const MESSAGES = Number(process.env.STORM_MESSAGES ?? 800);
const KEYS = 20;
const script = (name) => fileURLToPath(new URL(`support/${name}`, import.meta.url));
const asked = (url) => fetch(url).then((answer) => answer.json(), () => undefined);

test(`${ROUNDS} rounds of kills amid ${MESSAGES} messages`, async () => {
  const deployment = await Deployment.start({ pods: 2 });
  const port = await freePort();
  const receiver = new Restartable(process.execPath, [script("storm-receiver.mjs"), join(deployment.dir, "applied.db"), String(port)], join(deployment.dir, "receiver.log"));
  receiver.spawn();
  const worker = new Restartable(process.execPath, [script("storm-worker.mjs")], join(deployment.dir, "worker.log"), { RESEQ_URL: deployment.urls.join() });
  const reseq = new Reseq({ url: deployment.urls, retryMs: Infinity });
  await reseq.define("storm", { url: `http://127.0.0.1:${port}/`, ordering: "key", transform: { kind: "worker", backoff_ms: 20, stalls_max: 0 }, delivery: { backoff_ms: 20, backoff_max_ms: 200, timeout_ms: 5000 } });
  await reseq.define("asks", { ordering: "none", delivery: { kind: "none" }, transform: { kind: "worker", rate_per_second_max: 100, burst: 10, backoff_ms: 20, stalls_max: 0 } });
  worker.spawn();
  let isOver = false;
  let answered = 0;
  const asking = Promise.all(Array.from({ length: 8 }, async (_, who) => {
    for (let n = 0; !isOver; n += 1) {
      const { output } = await reseq.send("asks", { number: `${who}/${n}` }, { waitFor: "processed" });
      assert.deepEqual(output, { number: `${who}/${n}`, isHandled: true });
      answered += 1;
    }
  }));
  asking.catch(() => {});
  const victims = { worker, receiver, redis: deployment.redis, "pod 1": deployment.pods[0], "pod 2": deployment.pods[1] };
  const count = async () => (await asked(`http://127.0.0.1:${port}/count`))?.[0].count ?? 0;

  for (let round = 1; round <= ROUNDS; round += 1) {
    const before = (round - 1) * MESSAGES;
    const names = Object.keys(victims).sort(() => Math.random() - 0.5);
    let sent = 0;
    const producing = (async () => {
      while (sent < MESSAGES) {
        const some = Math.min(50, MESSAGES - sent);
        const sendings = Array.from({ length: some }, (_, at) => {
          const number = before + sent + at;
          return reseq.send("storm", { number }, { key: `key ${number % KEYS}` });
        });
        await Promise.all(sendings);
        sent += some;
      }
    })();
    // Each dies when a part of the messages is through, and some of the rest is not.
    for (const [at, name] of names.entries()) {
      const part = before + ((at + 1) * MESSAGES) / (names.length + 2);
      await until(`${part} are applied before ${name} dies`, async () => (await count()) >= part);
      assert.ok((await count()) < before + MESSAGES, `all was over before ${name} died`);
      await victims[name].kill();
      victims[name].spawn();
      await until("the receiver answers", () => asked(`http://127.0.0.1:${port}/count`));
    }
    await producing;
    await until("all are applied", async () => (await count()) >= before + MESSAGES);
    // Those that come again now would be repeats.
    await until("nothing is pending", async () => (await reseq.stats("storm")).pending === 0);
    console.log(`round ${round}: killed ${names.join(", ")}`);
  }

  isOver = true;
  await asking;
  assert.ok(answered > 20 * ROUNDS, `${answered} outputs came`);

  const applied = await asked(`http://127.0.0.1:${port}/all`);
  assert.equal(applied.length, ROUNDS * MESSAGES);
  for (let key = 0; key < KEYS; key += 1) {
    const numbers = applied.filter(({ lane }) => lane === `key ${key}`).map(({ number }) => number);
    const expected = Array.from({ length: ROUNDS * MESSAGES }, (_, number) => number).filter((number) => number % KEYS === key);
    assert.deepEqual(numbers, expected);
  }
  await Promise.all([worker.kill(), receiver.kill()]);
  reseq.close();
  await deployment.stop();
});
