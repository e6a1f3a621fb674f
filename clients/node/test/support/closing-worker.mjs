// A worker whose handler never ends. Says `active` when it has begun.
import { Worker } from "reseq";

const [, , destination, options] = process.argv;
const worker = new Worker(destination, () => new Promise(() => {}), { closeOn: ["SIGINT", "SIGTERM"], ...JSON.parse(options) });
worker.on("active", () => console.log("active"));
worker.on("error", () => {});
