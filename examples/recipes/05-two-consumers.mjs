// Two consumers of one queue share the work, both when traffic is slow and when it is fast.
//
//   RESEQ_URL=http://127.0.0.1:8080 node examples/recipes/05-two-consumers.mjs
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Worker } from "reseq";
import { done, drained, pause, receiver, reseq, until } from "./lib.mjs";

const [part, name] = process.argv.slice(2);

// A consumer takes as many messages as it has room for, and puts its name on them. Start any number at
// any time; they do not know each other.
function consume() {
  new Worker("tasks", async ({ body }) => {
    await pause(2);
    return { ...body, by: name };
  }, { concurrency: 4 });
  process.on("disconnect", () => process.exit());
  process.send("ready");
}

async function everything() {
  const finished = [];
  const { url } = await receiver(({ body }) => void finished.push(body), { ordering: "none" });
  await reseq.define("tasks", { url, ordering: "none", transform: { kind: "worker" } });
  const consumers = ["first", "second"].map((of) => fork(fileURLToPath(import.meta.url), ["consume", of]));
  await Promise.all(consumers.map((one) => new Promise((ready) => one.once("message", ready))));

  // Slow: the next task arrives when the one before is done.
  const slow = Number(process.env.SLOW ?? 40);
  for (let task = 1; task <= slow; task += 1) {
    await reseq.send("tasks", { traffic: "slow", task });
    await until("the task is finished", () => finished.length >= task);
  }
  // Fast: all tasks arrive at once.
  const fast = Number(process.env.FAST ?? 2000);
  const task = (_, number) => ({ body: { traffic: "fast", task: number } });
  await reseq.sendBatch("tasks", Array.from({ length: fast }, task));
  await drained("tasks");

  const share = (traffic, by) => finished.filter((one) => one.traffic === traffic && one.by === by).length;
  const shares = (traffic) => [share(traffic, "first"), share(traffic, "second")];
  consumers.forEach((one) => one.kill());
  done({ slow: shares("slow"), fast: shares("fast"), finished: finished.length });
}

await (part === "consume" ? consume() : everything());
