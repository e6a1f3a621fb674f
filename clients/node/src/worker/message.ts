import type { components } from "../api.js";
import { elementsOf, spanOf } from "../span.js";

type Lease = components["schemas"]["Lease"] & { body?: unknown; body_base64?: string };

/** A message that this worker has leased. */
export interface Message<Body = any, Checkpoint = any> {
  destination: string;
  /** The position in the destination: compare the epoch first, then the sequence. */
  sequence: number;
  epoch: number;
  id: string;
  /** The ordering key. */
  key: string | null;
  /** 1 at first; failed attempts and expired leases count. */
  attempt: number;
  headers: Record<string, string>;
  contentType: string;
  /** The JSON value; a `Buffer` if the message is not JSON. */
  body: Body;
  /** The bytes exactly as they arrived. */
  readonly raw: Buffer;
  /** What an earlier attempt saved with `checkpoint()`. */
  checkpoint: Checkpoint | null;
  lastError: components["schemas"]["LastError"] | null;
}

/** A lease, and the text in which it came. */
export interface Leased {
  token: string;
  message: Message;
  /** What completes the message unchanged. */
  unchanged(): string;
  bytes: number;
  /** It may have crashed its last workers: a process must hold no other suspect. */
  suspect: boolean;
}

/** The leases in the answer to a claim. */
export function leasesIn(text: string): { leases: Leased[]; damaged: string[] } {
  const answer = JSON.parse(text) as { leases: Lease[]; damaged?: string[] };
  const bytes = answer.leases.length === 0 ? 0 : text.length / answer.leases.length;
  let texts: string[] | undefined;
  const textOf = (at: number) => (texts ??= elementsOf(text, ["leases"]))[at]!;
  const leases = answer.leases.map((lease, at): Leased => {
    const message = new LeasedMessage(lease, () => spanOf(textOf(at), ["body"]));
    return { token: lease.token, message, unchanged: () => message.unchanged(), bytes, suspect: lease.suspect === true };
  });
  return { leases, damaged: answer.damaged ?? [] };
}

export class LeasedMessage implements Message {
  readonly destination: string;
  readonly sequence: number;
  readonly epoch: number;
  readonly id: string;
  readonly key: string | null;
  readonly attempt: number;
  readonly headers: Record<string, string>;
  readonly contentType: string;
  body: any;
  readonly checkpoint: any;
  readonly lastError: components["schemas"]["LastError"] | null;
  /** The text of a JSON body. A number that a double cannot hold is only there. */
  readonly #json: (() => string) | undefined;

  constructor(lease: Lease, json: () => string) {
    this.destination = lease.destination;
    this.sequence = lease.sequence;
    this.epoch = lease.epoch;
    this.id = lease.id;
    this.key = lease.key ?? null;
    this.attempt = lease.attempt;
    this.headers = lease.headers;
    this.contentType = lease.content_type;
    const isBytes = typeof lease.body_base64 === "string";
    this.body = isBytes ? Buffer.from(lease.body_base64!, "base64") : lease.body;
    this.#json = isBytes ? undefined : json;
    const saved = lease.checkpoint_base64;
    this.checkpoint = typeof saved === "string" ? JSON.parse(Buffer.from(saved, "base64").toString()) : (lease.checkpoint ?? null);
    this.lastError = lease.last_error ?? null;
  }

  get raw(): Buffer {
    return this.#json ? Buffer.from(this.#json()) : (this.body as Buffer);
  }

  unchanged(): string {
    if (this.#json && this.contentType === "application/json") return `"body":${this.#json()}`;
    return `"body_base64":"${this.raw.toString("base64")}","content_type":${JSON.stringify(this.contentType)}`;
  }
}
