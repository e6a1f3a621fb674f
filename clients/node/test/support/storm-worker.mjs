import { setTimeout as pause } from "node:timers/promises";
import { Later, Worker } from "reseq";

const worker = new Worker(["storm", "asks"], async ({ body, destination }) => {
  if (destination === "asks" && Math.random() < 0.3) throw new Later(20);
  await pause(Math.random() * 4);
  return { ...body, isHandled: true };
}, { concurrency: 16, leaseMs: 1500, closeOn: ["SIGTERM"] });
// Errors are expected here: everything is killed all the time.
worker.on("error", () => {});
