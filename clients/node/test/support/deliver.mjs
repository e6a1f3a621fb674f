// Delivers what a simulated server has processed, in order, to a guard, as badly as Reseq's promises allow: requests
// and answers are lost, a repeat comes while the first is handled, and old requests come late.
import { setTimeout as pause } from "node:timers/promises";

export const DELIVERY_FAULTS = ["lost", "answer lost", "impatient", "stale", "late copy"];

const positionHeaders = ({ epoch, sequence, id, key }, previous, attempt) => ({
  "reseq-destination": "erp",
  "reseq-epoch": String(epoch),
  "reseq-sequence": String(sequence),
  "reseq-previous": String(previous),
  "reseq-attempt": String(attempt),
  "reseq-id": id,
  "content-type": "application/json",
  ...(key === null ? {} : { "reseq-key": encodeURIComponent(key) }),
});

/** Delivers until `isOver()`. `fault()` draws what happens to each attempt. */
export async function deliverAll(server, receive, fault, isOver, change = (headers) => headers) {
  const late = [];
  const old = [];
  let previous = 0;
  let epoch = 0;
  while (!isOver()) {
    const head = server.lane[0];
    if (head?.state !== "ready") {
      await pause(1);
      continue;
    }
    if (head.epoch !== epoch) [previous, epoch] = [0, head.epoch];
    const isAccepted = await attempts(head);
    if (!isAccepted) continue;
    previous = head.sequence;
    server.lane.shift();
  }
  await Promise.all(late);

  async function attempts(head) {
    for (let attempt = 1; ; attempt += 1) {
      const request = () => receive(new Request("http://receiver/in", { method: "POST", headers: change(positionHeaders(head, previous, attempt)), body: JSON.stringify(head.output ?? null) }));
      if (head.isDropped) return true;
      const happens = fault();
      if (happens === "lost") continue;
      if (happens === "answer lost") {
        await request();
        continue;
      }
      // The sender gives up and sends again while the receiver still handles the first.
      if (happens === "impatient") late.push(request());
      if (happens === "late copy") late.push(pause(Math.random() * 20).then(request));
      if (happens === "stale" && old.length > 0) late.push(old[Math.floor(Math.random() * old.length)]());
      old.push(request);
      const response = await request();
      if (response.ok) return true;
      await pause(1);
    }
  }
}
