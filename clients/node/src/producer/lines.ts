import type { components } from "../api.js";
import { checkOptions } from "../options.js";

/** The source of a message, such as a table, and its position there. Positions are compared byte by byte. */
export interface MessageSource {
  name: string;
  position: string;
  /** The position of the message before it: the message is stored only after that one. */
  after?: string | undefined;
  /** Stores nothing, and only moves the mark. The body is not sent. */
  skip?: boolean | undefined;
}

export interface SendOptions {
  /** The ordering key: messages with the same key stay in order, if the destination orders by key. */
  key?: string | undefined;
  /** An id of your own, by which you find the message; a UUID if left out. It prevents no repeat: see `idempotencyKey`. */
  id?: string | undefined;
  /**
   * A name for the fact that the message tells, such as `order-7`. Sending it again stores nothing. If left out,
   * the client makes one, so that its own retries store nothing twice. `false` sends none: for destinations
   * that take it from the message (`idempotency_key_from`).
   */
  idempotencyKey?: string | false | undefined;
  /** Headers that travel with the message, as far as the destination allows (`forward_headers`). */
  headers?: Record<string, string> | undefined;
  /** Process the message only after this time. */
  delayMs?: number | undefined;
  /** Process the message only after this instant. */
  dueAt?: Date | string | undefined;
  /** 0 to 9, for destinations without an order. */
  priority?: number | undefined;
  /** The most attempts at processing it; not more than the destination allows (`transform.attempts_max`). */
  attemptsMax?: number | undefined;
  /** The upper limit of the first wait after a failed attempt; it doubles up to `transform.backoff_max_ms`. */
  backoffMs?: number | undefined;
  /** Where the message comes from. Each position of a source is stored once, in order. */
  source?: MessageSource | undefined;
  /** Sends a string or bytes as they are, with this content type, instead of as JSON. */
  contentType?: string | undefined;
  /** Stops waiting. A message that is on its way may be stored all the same. */
  signal?: AbortSignal | undefined;
  /** How long to try again while Reseq is busy or does not answer. `Infinity` never gives up. */
  retryMs?: number | undefined;
}

/** What `send` takes to wait for the output. */
export interface WaitOptions extends SendOptions {
  /** Resolves with the output when the message is processed. Rejects with a `ResultError` if it has none. */
  waitFor: "processed";
  /** How long to wait for the output (60 s, the most). */
  waitMs?: number | undefined;
}

const SEND_OPTIONS: Record<keyof WaitOptions, true> = {
  waitFor: true, waitMs: true, attemptsMax: true, backoffMs: true,
  key: true, id: true, idempotencyKey: true, headers: true, delayMs: true, dueAt: true, priority: true, contentType: true, signal: true, retryMs: true, source: true,
};

/** Options of a job of BullMQ. */
const JOB_OPTIONS = {
  jobId: "`idempotencyKey`, which stores a repeat only once, and `id`, by which you find the message",
  attempts: "`attemptsMax`", backoff: "`backoffMs`", delay: "`delayMs`",
};

export type Target = { destinations: string[] } | { topic: string };

type NewMessage = components["schemas"]["NewMessage"];

/** One line of a batch. Throws a `TypeError` at once if the body cannot be sent. */
export function lineOf(target: Target, body: unknown, options: SendOptions & Partial<WaitOptions>, idempotencyKey: string | undefined): string {
  checkOptions(options, SEND_OPTIONS, "a message", JOB_OPTIONS);
  const fields: NewMessage = {
    ...target,
    key: options.key,
    id: options.id,
    idempotency_key: idempotencyKey,
    headers: options.headers,
    delay_ms: options.delayMs,
    due_at: options.dueAt instanceof Date ? options.dueAt.toISOString() : options.dueAt,
    priority: options.priority,
    attempts_max: options.attemptsMax,
    backoff_ms: options.backoffMs,
    source: options.source,
    keep_result: options.waitFor && true,
  };
  if (options.source?.skip) return JSON.stringify(fields);
  if (body instanceof Uint8Array || (typeof body === "string" && options.contentType !== undefined)) {
    const bytes = typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    return JSON.stringify({ ...fields, body_base64: bytes.toString("base64"), content_type: options.contentType });
  }
  if (options.contentType !== undefined) {
    throw new TypeError("contentType is for a body of type string, Buffer or Uint8Array");
  }
  return `${JSON.stringify(fields).slice(0, -1)},"body":${jsonOf(body, "the body")}}`;
}

/** JSON as one line. `undefined`, functions and symbols have no JSON. */
export function jsonOf(value: unknown, what: string): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`${what} is ${value === undefined ? "undefined" : `a ${typeof value}`}, which JSON does not have`);
  return text;
}
