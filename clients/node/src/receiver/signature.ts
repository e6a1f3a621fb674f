import { createHmac, timingSafeEqual } from "node:crypto";
import type { HeaderGetter } from "./message.js";

/** Older or newer requests are refused: somebody may have recorded them. */
const TOLERANCE_S = 5 * 60;

/**
 * Checks a signature as Standard Webhooks describes it: HMAC-SHA256 over `id.timestamp.body`, with one of the secrets
 * (`whsec_` and base64). Returns what is wrong, or undefined.
 */
export function wrongSignature(header: HeaderGetter, raw: Buffer, secrets: string[], nowMs = Date.now()): string | undefined {
  const [id, timestamp, given] = [header("webhook-id"), header("webhook-timestamp"), header("webhook-signature")];
  if (id === undefined || timestamp === undefined || given === undefined) return "the request is not signed";
  const seconds = /^\d+$/.test(timestamp) ? Number(timestamp) : NaN;
  if (!(Math.abs(nowMs / 1000 - seconds) <= TOLERANCE_S)) return "the timestamp of the signature is too old, or in the future";
  const signatures = given.split(" ").filter((one) => one.startsWith("v1,")).map((one) => Buffer.from(one.slice(3), "base64"));
  for (const secret of secrets) {
    const expected = hmacOf(secret, id, timestamp, raw);
    if (signatures.some((one) => one.length === expected.length && timingSafeEqual(one, expected))) return undefined;
  }
  return "no signature is right";
}

/** The value of `webhook-signature`, for tests and for services that send without Reseq. */
export const sign = (secret: string, id: string, timestamp: number, raw: string | Buffer) =>
  `v1,${hmacOf(secret, id, String(timestamp), Buffer.from(raw)).toString("base64")}`;

function hmacOf(secret: string, id: string, timestamp: string, raw: Buffer): Buffer {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  return createHmac("sha256", key).update(`${id}.${timestamp}.`).update(raw).digest();
}
