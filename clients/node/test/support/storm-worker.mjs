import { setTimeout as pause } from "node:timers/promises";
import { Worker } from "reseq";

const worker = new Worker("storm", async ({ body }) => {
  await pause(Math.random() * 4);
  return { ...body, isHandled: true };
}, { concurrency: 16, leaseMs: 1500, closeOn: ["SIGTERM"] });
// Errors are expected here: everything is killed all the time.
worker.on("error", () => {});
