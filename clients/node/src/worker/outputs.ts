import { jsonOf } from "../producer/lines.js";
import type { Leased } from "./message.js";

// Registered symbols, so that a handler in another thread, or of the other module system, has the same ones.

/** A handler returns this to deliver the message as it came. */
export const KEEP: unique symbol = Symbol.for("reseq.keep") as never;
/** A handler returns this to deliver nothing for this message. */
export const DROP: unique symbol = Symbol.for("reseq.drop") as never;
/** A handler returns this to give the message back unprocessed, at once; it does not count as an attempt. */
export const REQUEUE: unique symbol = Symbol.for("reseq.requeue") as never;

/** A handler returns this to deliver bytes with a content type of their own. */
export class Output {
  constructor(
    readonly bytes: Uint8Array | string,
    readonly contentType = "application/octet-stream",
  ) {}
}

/** The fields of a `complete`, as JSON without braces. Throws a `TypeError` if the output is nothing that can be delivered. */
export function completionOf(output: unknown, leased: Leased): string {
  if (output === KEEP) return leased.unchanged();
  if (output === DROP) return `"drop":true`;
  if (output === undefined) {
    throw new TypeError("the handler returned undefined: return the output, KEEP to deliver the message as it came, or DROP to deliver nothing; only where delivery.kind is none may it return nothing");
  }
  if (output instanceof Output) return bytesOf(output.bytes, output.contentType);
  if (output instanceof Uint8Array) return bytesOf(output, "application/octet-stream");
  return `"body":${jsonOf(output, "what the handler returned")}`;
}

function bytesOf(bytes: Uint8Array | string, contentType: string): string {
  const buffer = typeof bytes === "string" ? Buffer.from(bytes) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return `"body_base64":"${buffer.toString("base64")}","content_type":${JSON.stringify(contentType)}`;
}
