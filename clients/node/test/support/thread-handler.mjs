import { threadId } from "node:worker_threads";
import { KEEP, Later, Permanent, REQUEUE } from "reseq";

export default async function handle({ body, attempt, checkpoint }, context) {
  switch (body.task) {
    case "sum": {
      let sum = 0;
      for (let at = 1; at <= body.to; at += 1) sum += at;
      return { sum };
    }
    case "permanent":
      throw new Permanent("never");
    case "exit-once":
      if (attempt === 1) process.exit(3);
      return { attempt };
    case "checkpoint":
      if (checkpoint) return { checkpoint };
      await context.checkpoint({ at: 1 });
      return REQUEUE;
    case "later":
      if (checkpoint) return { attempt, checkpoint };
      await context.checkpoint({ at: 2 });
      return new Later(1);
    case "thread":
      return { thread: threadId };
    default:
      return KEEP;
  }
}
