/** The codes of Reseq, as `docs/reference/errors.md` lists them. A newer Reseq may have others. */
export const CODES = [
  "invalid_json", "invalid_field", "invalid_body", "invalid_request", "unauthorized", "forbidden", "forbidden_origin", "refused_address",
  "too_many_tokens", "unknown_token", "unknown_destination", "unknown_topic",
  "unknown_message", "unknown_operation", "not_found", "method_not_allowed", "request_timeout", "body_timeout",
  "idempotency_conflict", "source_gap", "sources_full", "no_key", "defined_in_file", "wrong_state", "wrong_version", "body_too_large",
  "unsupported_media_type", "backlog_full", "unreadable", "damaged", "paused", "memory_high", "redis_unavailable",
  "redis_refuses_writes",
  "no_rights", "newer_schema", "not_confirmed", "cannot_confirm", "aborted", "key_unavailable", "no_room",
  "connections_full", "draining",
  "no_signature", "invalid_signature", "timestamp_outside_tolerance", "uri_too_long", "rate_limited", "too_many_requests", "no_secrets_key",
] as const;

/**
 * Codes of the client itself. `no_answer`: no answer came, so it is not known what Reseq did.
 * `invalid_answer`: what answered is not Reseq. `queue_full`: too many messages wait in this process.
 */
export type ClientCode = "no_answer" | "invalid_answer" | "queue_full";

// `string & {}` keeps the names in editors and allows codes of a newer Reseq.
export type ErrorCode = (typeof CODES)[number] | ClientCode | (string & {});

export interface InvalidPart {
  detail: string;
  pointer?: string | null;
  parameter?: string | null;
  header?: string | null;
}

export interface ErrorFields {
  code: ErrorCode;
  detail: string;
  status?: number;
  errors?: InvalidPart[];
  requestId?: string | null;
  retryAfterMs?: number;
  cause?: unknown;
}

/** What Reseq refused, or that it did not answer. Decide by `code`; the message is for people. */
export class ReseqError extends Error {
  readonly code: ErrorCode;
  /** The sentence of Reseq. */
  readonly detail: string;
  /** The HTTP status; undefined if no answer came. */
  readonly status: number | undefined;
  /** With `invalid_field`: the invalid parts of the request. */
  readonly errors: InvalidPart[];
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;
  /** True if a message that was sent may have been stored although this error came. */
  mayBeStored = false;

  constructor(fields: ErrorFields) {
    super(`${fields.code}: ${fields.detail}`, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.name = "ReseqError";
    this.code = fields.code;
    this.detail = fields.detail;
    this.status = fields.status;
    this.errors = fields.errors ?? [];
    this.requestId = fields.requestId ?? undefined;
    this.retryAfterMs = fields.retryAfterMs;
  }

  /** True if the same call can succeed later. */
  get isTemporary(): boolean {
    return this.status === undefined ? this.code === "no_answer" : TEMPORARY.has(this.status);
  }
}

/** Proxies answer 502 and 504. */
const TEMPORARY = new Set([408, 429, 502, 503, 504]);

/** A problem object of Reseq, or a line of a batch that is one. */
export interface ProblemLike {
  status: number;
  code: string;
  detail: string;
  errors?: InvalidPart[];
  request_id?: string | null;
  retry_after?: number | null;
}

export function errorOf(problem: ProblemLike): ReseqError {
  const { status, code, detail, errors, request_id: requestId, retry_after: seconds } = problem;
  const retryAfterMs = typeof seconds === "number" ? seconds * 1000 : undefined;
  return new ReseqError({ status, code, detail, errors, requestId, retryAfterMs });
}

// By a registered symbol instead of `instanceof`: a program may load this package twice, as ESM and as
// CommonJS, or a handler may run in another thread.
const permanent = Symbol.for("reseq.permanent");
const retry = Symbol.for("reseq.retry");
const later = Symbol.for("reseq.later");

/** Throw this in a handler if no further attempt can succeed: `on_exhausted` of the destination applies. */
export class Permanent extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "Permanent";
    Object.defineProperty(this, permanent, { value: true });
  }
}

/** Throw this in a handler to choose when the next attempt begins. */
export class Retry extends Error {
  readonly afterMs: number;

  constructor(message: string, afterMs: number, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "Retry";
    // Reseq delays an attempt for a day at most.
    this.afterMs = Number.isNaN(afterMs) ? 0 : Math.min(Math.max(0, Math.round(afterMs)), 86_400_000);
    Object.defineProperty(this, retry, { value: true });
  }
}

const UNITS_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Return or throw this in a handler to get the message again after this time, in ms or such as `"30s"` (ms, s, m, h). It
 * counts as no attempt. A message can come back like this 1,000 times.
 */
export class Later extends Error {
  readonly afterMs: number;

  constructor(after: number | string, message = "the handler asked to have the message later") {
    super(message);
    this.name = "Later";
    const [, count, unit] = /^(\d+(?:\.\d+)?) *(ms|s|m|h|d)$/.exec(String(after)) ?? [];
    const ms = typeof after === "number" ? after : Number(count) * UNITS_MS[unit ?? "ms"]!;
    if (!(ms >= 0)) throw new TypeError(`Later: ${String(after)} is no time; give milliseconds, or a text such as "30s"`);
    // Reseq delays a message for a day at most.
    this.afterMs = Math.min(Math.max(1, Math.round(ms)), 86_400_000);
    Object.defineProperty(this, later, { value: true });
  }
}

const has = (error: unknown, mark: symbol) =>
  typeof error === "object" && error !== null && (error as Record<symbol, unknown>)[mark] === true;

export const isPermanent = (error: unknown): error is Permanent => has(error, permanent);
export const isRetry = (error: unknown): error is Retry => has(error, retry);
export const isLater = (thrown: unknown): thrown is Later => has(thrown, later);

/** What to say of anything that was thrown. Never empty. */
export function sentenceOf(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  return text || "failed";
}

export const asError = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(sentenceOf(thrown), { cause: thrown });
