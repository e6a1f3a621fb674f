// A deployment in which something happens on every page.
import { setTimeout as pause } from "node:timers/promises";

const BODY = { customer: "acct-1042", total: "119.00", currency: "EUR", lines: [{ item: "A-17", count: 2 }, { item: "B-3", count: 1 }] };

/** Defines destinations, and gives each a past. */
export async function prepare(service, receiver) {
  const url = (path) => `${receiver.url}/${path}`;
  await service.define("erp", { url: url("erp"), transform: { kind: "worker" }, log_bodies: true, ids_max: 1000 });
  await service.define("crm", { url: url("crm"), ordering: "key", transform: { kind: "worker" } });
  await service.define("billing", { url: url("billing"), delivery: { backoff_ms: 60_000, backoff_max_ms: 60_000 } });
  await service.define("mail", { url: url("mail"), transform: { kind: "worker" }, on_exhausted: "dead_letter", log_bodies: true });
  await service.define("reports", { url: url("reports"), ordering: "none", transform: { kind: "worker" } });
  await service.ask("PUT", "/v1/topics/orders", { destinations: ["erp", "crm"] });
  receiver.answer = ({ path }) => (path === "/billing" ? { status: 503, text: "maintenance until 18:00" } : { status: 200, afterMs: 3 });

  for (let at = 0; at < 12; at += 1) await service.send("mail", { to: `user${at}@example.com` }, { id: `mail-${at}` });
  for (const lease of await service.claim("mail", 12, 12)) {
    if (lease.sequence % 3 === 0) await service.fail(lease, "550 mailbox unavailable: no such user here");
    else await service.complete(lease);
  }
  for (let at = 0; at < 5; at += 1) await service.send("billing", { invoice: 7000 + at });
  for (const key of ["acct-7", "acct-8", "acct-9"]) for (let at = 0; at < 6; at += 1) await service.send("crm", { account: key, change: at }, { key });
  const crm = await service.claim("crm", 12, 12);
  await service.fail(crm[0], "422 the account is closed");
  for (const lease of crm.slice(2, 9)) await service.complete(lease);
  for (let at = 0; at < 9; at += 1) await service.send("reports", { report: at }, { priority: at % 3 });
  await service.claim("reports", 3, 3);
  await service.ask("POST", "/v1/destinations/reports/pause", { what: "delivery" });
}

/** Messages for a lane. */
export async function fill(service, count) {
  for (let at = 0; at < count; at += 1) await service.send("erp", { ...BODY, order: `order-${at + 1}` }, { id: `order-${Date.now()}-${at}` });
}

/** Keeps the lane of erp moving: about `slots` messages in work, which finish out of order. Returns a stop. */
export function flow(service, { slots = 9, everyMs = 120, random = () => Math.random() } = {}) {
  let isOver = false;
  const held = [];
  let number = 0;
  const running = (async () => {
    while (!isOver) {
      await service.send("erp", { ...BODY, order: `order-${(number += 1)}` }, { id: `flow-${Date.now()}-${number}` });
      if (held.length < slots) held.push(...(await service.ask("POST", "/v1/leases", { destinations: ["erp"], max: slots - held.length, lease_ms: 600_000 })).leases);
      // Any but the oldest finishes, most of the time.
      if (held.length > 3) await service.complete(held.splice(random() < 0.16 ? 0 : 1 + Math.floor(random() * (held.length - 1)), 1)[0]);
      await pause(everyMs);
    }
  })();
  return async () => {
    isOver = true;
    await running;
    return held;
  };
}
