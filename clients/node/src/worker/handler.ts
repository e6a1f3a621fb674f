import { CLIENT_OPTIONS, type NameOf, type Reseq, type ReseqOptions } from "../client.js";
import type { Later } from "../errors.js";
import type { StandardSchema } from "../schema.js";
import type { Message } from "./message.js";
import type { DROP, KEEP, Output, REQUEUE } from "./outputs.js";

export interface Context {
  /** Aborted when the lease is lost, or the attempt has lasted for longer than `attemptTimeoutMs`: nobody needs the output. */
  signal: AbortSignal;
  /** Aborted when the worker is closing: finish soon, or save a checkpoint and return `REQUEUE`. */
  stopping: AbortSignal;
  /** Saves any JSON up to 64 KiB for the next attempt. Resolves when Reseq has it; rejects if the lease is lost. */
  checkpoint: (value: unknown) => Promise<void>;
  /** Tells the listeners of `progress` in this process. As a checkpoint, it begins `attemptTimeoutMs` again. */
  progress: (value: unknown) => void;
  /** Tells the listeners of `log` in this process. */
  log: (text: string) => void;
}

/** Any JSON, or bytes. A promise has `then`, so a promise of nothing is not an object of this type. */
export type AnyOutput = string | number | boolean | null | (object & { then?: never });

/** What a handler whose output is a `Result` may return. */
export type HandlerResult<Result = AnyOutput> = Result | typeof KEEP | typeof DROP | typeof REQUEUE | Later | Output;

/**
 * Returns the output. What it throws is a failed attempt. With `Handler<Mail, void>` it returns nothing, which is
 * right where `delivery.kind` is `none`.
 */
export type Handler<Body = any, Result = AnyOutput, Checkpoint = any> = (message: Message<Body, Checkpoint>, context: Context) => HandlerResult<Result> | PromiseLike<HandlerResult<Result>>;

/** The body that a worker gets: of the type that it names, of its schema, or as its client knows it. */
export type BodyOf<Body, Bodies, Name extends NameOf<Bodies>> = 0 extends 1 & Body ? Bodies[Name] : Body;

export interface WorkerOptions<Body = any, Bodies extends object = any> extends ReseqOptions {
  /**
   * The schema of the bodies: of zod, valibot or whatever else follows Standard Schema. The handler gets what it returns. A
   * body that does not fit is a `Permanent` failure, and the handler is not called.
   */
  schema?: StandardSchema<Body> | undefined;
  /** A client to share; in place of `url` and `token`. A worker without type arguments has the names and bodies of its client. */
  reseq?: Reseq<Bodies> | undefined;
  /**
   * Who holds a message, as the API and the console show it: 1 to 64 letters, digits and `. _ : @ -`. The default is
   * `<host>:<process id>:<number of the worker in its process>`.
   */
  name?: string | undefined;
  /** Messages that are handled at once (8). With `threads`, the number of threads. */
  concurrency?: number | undefined;
  /** After a worker dies, its messages wait this long at most (30 s). Leases of living workers are extended. */
  leaseMs?: number | undefined;
  /** The most messages leased ahead; 0 leases none. The worker chooses the number by how long handlers take. */
  prefetchMax?: number | undefined;
  /**
   * How long an attempt may take since its start, last checkpoint or last progress (15 min; 0: no limit). Then `signal`
   * is aborted, and the attempt has failed: another one may begin while this handler still runs.
   */
  attemptTimeoutMs?: number | undefined;
  /**
   * Closes the worker on these signals, then ends the process if nothing else listens to them. A second signal ends it
   * at once.
   */
  closeOn?: NodeJS.Signals[] | undefined;
  /** With `closeOn`: how long handlers have to finish (25 s, less than Kubernetes waits). Then they are aborted. */
  closeMs?: number | undefined;
}

export const WORKER_OPTIONS: Record<keyof WorkerOptions, true> = {
  ...CLIENT_OPTIONS, schema: true, reseq: true, name: true, concurrency: true, leaseMs: true, prefetchMax: true, attemptTimeoutMs: true, closeOn: true, closeMs: true,
};

/** Options of a worker of BullMQ. */
export const BULLMQ_OPTIONS = {
  connection: "`url`", lockDuration: "`leaseMs`", limiter: "`transform.rate_per_second_max` of the destination",
};
