import { ReseqError, errorOf, type ProblemLike } from "../errors.js";
import type { Backoff } from "../timing.js";
import { refusal, type Answer, type Transport } from "../transport.js";
import type { components } from "../api.js";

export type Accepted = components["schemas"]["Accepted"];

/** A message on its way. */
export interface Entry {
  /** The destinations or the topic. Messages that share a name keep their order. */
  names: string[];
  line: string;
  retryMs: number;
  signal?: AbortSignal | undefined;
}

interface Waiting extends Entry {
  order: number;
  bytes: number;
  since: number;
  /** True once an attempt got no answer: an earlier attempt may have stored the message. */
  mayBeStored: boolean;
  /** Sent in a batch of its own, to find out which message Reseq refuses. */
  isAlone: boolean;
  isSettled: boolean;
  resolve(accepted: Accepted, isRetried: boolean): void;
  reject(error: unknown): void;
}

export const LINES_MAX = 5_000;
const BYTES_MAX = 4 << 20;
const BATCHES_AT_ONCE_MAX = 8;

/**
 * Sends what comes in one tick as one batch. A name has one batch at a time, and what is tried again goes before
 * what came later, so messages of one name are stored in the order in which they came.
 */
export class Batcher {
  #queue: Waiting[] = [];
  #order = 0;
  /** Those that are not settled. */
  readonly #pending = new Set<Promise<unknown>>();
  #isScheduled = false;
  #batches = 0;
  readonly #busy = new Set<string>();
  readonly #backoffs = new Map<string, Backoff>();

  constructor(
    private readonly transport: Transport,
    private readonly waitingMax: number,
  ) {}

  /** Resolves when Reseq has the message. */
  add(entry: Entry): Promise<{ accepted: Accepted; isRetried: boolean }> {
    if (entry.signal?.aborted) return Promise.reject(entry.signal.reason as Error);
    if (this.#pending.size >= this.waitingMax) {
      const detail = `${this.waitingMax} messages wait in this process to be sent: await your sends, or set waitingMax`;
      return Promise.reject(new ReseqError({ code: "queue_full", detail }));
    }
    const added = new Promise<{ accepted: Accepted; isRetried: boolean }>((resolve, reject) => {
      const settle = () => {
        if (waiting.isSettled) return false;
        waiting.isSettled = true;
        this.#pending.delete(added);
        entry.signal?.removeEventListener("abort", onAbort);
        return true;
      };
      const onAbort = () => {
        if (settle()) reject(entry.signal!.reason as Error);
      };
      const waiting: Waiting = {
        ...entry,
        order: this.#order++,
        bytes: Buffer.byteLength(entry.line),
        since: performance.now(),
        mayBeStored: false,
        isAlone: false,
        isSettled: false,
        resolve: (accepted, isRetried) => void (settle() && resolve({ accepted, isRetried })),
        reject: (error) => void (settle() && reject(error as Error)),
      };
      entry.signal?.addEventListener("abort", onAbort, { once: true });
      this.#queue.push(waiting);
      this.#schedule();
    });
    this.#pending.add(added);
    return added;
  }

  /** Resolves when all messages so far are stored or refused, and who sent them knows. */
  async flush(): Promise<void> {
    await Promise.allSettled(this.#pending);
    await new Promise((resolve) => setImmediate(resolve));
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      while (this.#batches < BATCHES_AT_ONCE_MAX) {
        const batch = this.#next();
        if (batch.length === 0) return;
        void this.#send(batch);
      }
    });
  }

  /** Takes the next batch from the queue: nothing overtakes a message with which it shares a name. */
  #next(): Waiting[] {
    const batch: Waiting[] = [];
    const left: Waiting[] = [];
    const closed = new Set(this.#busy);
    let bytes = 0;
    let at = 0;
    for (; at < this.#queue.length; at += 1) {
      const entry = this.#queue[at]!;
      if (entry.isSettled) continue;
      const isFull = batch.length >= LINES_MAX || (batch.length > 0 && (bytes + entry.bytes > BYTES_MAX || entry.isAlone));
      if (isFull) break;
      if (entry.names.some((name) => closed.has(name))) {
        for (const name of entry.names) closed.add(name);
        left.push(entry);
        continue;
      }
      batch.push(entry);
      bytes += entry.bytes;
      if (entry.isAlone) {
        at += 1;
        break;
      }
    }
    this.#queue = left.concat(this.#queue.slice(at));
    return batch;
  }

  async #send(batch: Waiting[]): Promise<void> {
    const names = new Set(batch.flatMap((entry) => entry.names));
    for (const name of names) this.#busy.add(name);
    this.#batches += 1;
    const again = await this.#attempt(batch);
    this.#batches -= 1;
    for (const name of names) this.#busy.delete(name);
    if (again.entries.length > 0) this.#later(again.entries, again.retryAfterMs);
    const waits = new Set(again.entries.flatMap((entry) => entry.names));
    for (const name of names) if (!waits.has(name)) this.#backoffs.delete(name);
    this.#schedule();
  }

  /** Sends a batch once. Returns what has to be sent again. */
  async #attempt(batch: Waiting[]): Promise<{ entries: Waiting[]; retryAfterMs: number }> {
    let answer: Answer;
    try {
      const body = batch.map((entry) => entry.line).join("\n");
      const call = { method: "POST", path: "/v1/messages", body, contentType: "application/x-ndjson", timeoutMs: this.transport.sendTimeoutMs };
      answer = await this.transport.once(call);
    } catch (error) {
      return this.#unanswered(batch, error);
    }
    const lines = linesOf(answer, batch.length);
    if (lines === undefined) return this.#refusedWhole(batch, refusal(answer));
    const entries: Waiting[] = [];
    let retryAfterMs = 0;
    batch.forEach((entry, at) => {
      const line = lines[at]!;
      if (!("status" in line)) return entry.resolve(line, entry.mayBeStored);
      const error = errorOf(line);
      if (error.code === "not_confirmed") entry.mayBeStored = true;
      retryAfterMs = Math.max(retryAfterMs, error.retryAfterMs ?? 0);
      if (error.isTemporary && this.#hasTime(entry, error)) entries.push(entry);
      else this.#reject(entry, error);
    });
    return { entries, retryAfterMs };
  }

  #unanswered(batch: Waiting[], error: unknown): { entries: Waiting[]; retryAfterMs: number } {
    for (const entry of batch) entry.mayBeStored = true;
    const entries = batch.filter((entry) => this.#hasTime(entry) || void this.#reject(entry, error));
    return { entries, retryAfterMs: 0 };
  }

  /** The answer is about the request, not about its lines. */
  #refusedWhole(batch: Waiting[], error: ReseqError): { entries: Waiting[]; retryAfterMs: number } {
    if (error.isTemporary || (error.status !== undefined && error.status < 300)) {
      const retryAfterMs = error.retryAfterMs ?? 0;
      for (const entry of batch) entry.mayBeStored = true;
      return { entries: batch.filter((entry) => this.#hasTime(entry) || void this.#reject(entry, error)), retryAfterMs };
    }
    if (batch.length === 1) {
      this.#reject(batch[0]!, error);
      return { entries: [], retryAfterMs: 0 };
    }
    for (const entry of batch) entry.isAlone = true;
    return { entries: batch, retryAfterMs: 0 };
  }

  #hasTime(entry: Waiting, error?: ReseqError): boolean {
    return performance.now() + (error?.retryAfterMs ?? 0) < entry.since + entry.retryMs;
  }

  #reject(entry: Waiting, error: unknown): void {
    if (error instanceof ReseqError) {
      // One answer may refuse many messages: each gets an error of its own.
      const own = new ReseqError({ ...error, code: error.code, detail: error.detail, cause: error.cause });
      own.mayBeStored = entry.mayBeStored;
      entry.reject(own);
    } else {
      entry.reject(error);
    }
  }

  /** Puts messages back to where they were, and keeps their names closed until they are sent again. */
  #later(entries: Waiting[], retryAfterMs: number): void {
    this.#queue = entries.concat(this.#queue).sort((one, other) => one.order - other.order);
    const names = new Set(entries.flatMap((entry) => entry.names));
    const isDividing = entries.every((entry) => entry.isAlone);
    let waitMs = retryAfterMs;
    for (const name of names) {
      const backoff = this.#backoffs.get(name) ?? this.transport.newBackoff();
      this.#backoffs.set(name, backoff);
      waitMs = Math.max(waitMs, isDividing ? 0 : backoff.nextMs());
      this.#busy.add(name);
    }
    setTimeout(() => {
      for (const name of names) this.#busy.delete(name);
      this.#schedule();
    }, waitMs);
  }
}

type Line = Accepted | ProblemLike;

/** One object for each message, or undefined if the answer is not of this kind. */
function linesOf(answer: Answer, count: number): Line[] | undefined {
  if (!answer.headers["content-type"]?.includes("ndjson")) return undefined;
  const lines = answer.text.split("\n").filter((line) => line !== "");
  if (lines.length !== count) return undefined;
  try {
    return lines.map((line) => JSON.parse(line) as Line);
  } catch {
    return undefined;
  }
}
