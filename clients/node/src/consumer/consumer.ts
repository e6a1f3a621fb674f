import type { Reseq } from "../client.js";
import { ReseqError, isPermanent, isRetry, sentenceOf } from "../errors.js";
import { attemptLimit, checkOptions, whole } from "../options.js";
import { printer } from "../print.js";
import { TimeLimitError, pause } from "../timing.js";
import { refusal } from "../transport.js";
import { checkedName, newName } from "../worker/name.js";
import { Reports, type Reported } from "../worker/reports.js";
import { HeldLane } from "./lane.js";
import { HeldMessage, deliveriesIn, type ConsumedMessage } from "./message.js";

export interface ConsumeOptions {
  /** Ends the loop: it takes no more, and gives back what has not begun. */
  signal?: AbortSignal | undefined;
  /** The most messages to take with one call (100). The consumer takes what it handles in about 100 ms. */
  max?: number | undefined;
  /** Who takes the messages: 1 to 64 letters, digits and `. _ : @ -`. The default is `<host>:<process id>:<number>`. */
  name?: string | undefined;
  /**
   * How long the body of the loop may take for a message (15 min; 0: no limit). Then its `signal` is aborted, the
   * message counts as refused, and what has not begun goes back.
   */
  attemptTimeoutMs?: number | undefined;
  /**
   * Reseq does not answer or refuses a call, the destination does not exist yet, or `attemptTimeoutMs` has passed. The loop
   * goes on by itself. Without it, errors go to stderr.
   */
  onError?: ((error: unknown) => void) | undefined;
}

const CONSUME_OPTIONS: Record<keyof ConsumeOptions, true> = { signal: true, max: true, name: true, attemptTimeoutMs: true, onError: true };

const POLL_MS = 20_000;
const AHEAD_MS = 100;
const CALL_MS = 10_000;
/** How long the end of the loop waits until Reseq knows what was accepted and given back. */
const CLOSE_MS = 5_000;

/** Messages of a destination whose delivery is `pull`, in order. Going on to the next accepts the one before. */
export async function* consume<Body>(reseq: Reseq<any>, destination: string, options: ConsumeOptions): AsyncGenerator<ConsumedMessage<Body>, void, void> {
  const consumer = new Consumer(reseq, destination, options);
  try {
    for (;;) {
      const message = await consumer.next();
      if (!message) return;
      yield message as ConsumedMessage<Body>;
      consumer.passed(message);
    }
  } finally {
    await consumer.close();
  }
}

class Consumer {
  readonly #reseq: Reseq<any>;
  readonly #path: string;
  readonly #name: string;
  readonly #max: number;
  readonly #signal: AbortSignal;
  readonly #onError: (error: unknown) => void;
  readonly #killed = new AbortController();
  readonly #reports: Record<"accept" | "refuse" | "extend" | "requeue", Reports>;
  readonly #buffer: HeldMessage[] = [];
  readonly #lanes = new Set<HeldLane>();
  readonly #accepting = new Set<Promise<unknown>>();
  #leaseMs = 15_000;
  #timer: NodeJS.Timeout | undefined;
  /** How long a message takes. */
  #handlerMs: number | undefined;
  readonly #attemptTimeoutMs: number;
  /** The message that the body of the loop has now. */
  #current: HeldMessage | undefined;
  #beganAt = 0;

  constructor(reseq: Reseq<any>, destination: string, options: ConsumeOptions) {
    checkOptions(options, CONSUME_OPTIONS, "consume");
    this.#reseq = reseq;
    this.#path = `/v1/destinations/${encodeURIComponent(destination)}/consume`;
    this.#name = options.name === undefined ? newName() : checkedName(options.name);
    this.#max = whole(options.max ?? 100, "max", 1, 1000);
    this.#attemptTimeoutMs = attemptLimit(options.attemptTimeoutMs ?? 900_000);
    this.#signal = options.signal ?? new AbortController().signal;
    const print = printer();
    this.#onError = options.onError ?? ((error) => print(sentenceOf(error)));
    const reports = (kind: string) => new Reports(reseq.transport, `/v1/deliveries/${kind}`, (error) => this.#trouble(error), this.#killed.signal, CALL_MS);
    this.#reports = { accept: reports("accept"), refuse: reports("refuse"), extend: reports("extend"), requeue: reports("requeue") };
  }

  /** The next message; undefined at the end. */
  async next(): Promise<HeldMessage | undefined> {
    const backoff = this.#reseq.transport.newBackoff();
    while (!this.#signal.aborted) {
      const message = this.#buffer.shift();
      if (message) {
        if (message.held().lane.isLost) continue;
        this.#beganAt = performance.now();
        this.#current = message;
        return message;
      }
      try {
        await this.#take();
        backoff.reset();
      } catch (error) {
        if (this.#signal.aborted) return undefined;
        // As for a worker, somebody may create the destination later.
        const isMissing = error instanceof ReseqError && error.code === "unknown_destination";
        // A destination that has no consumers; a wrong token.
        if (error instanceof ReseqError && !error.isTemporary && !isMissing) throw error;
        this.#trouble(error);
        const retryAfterMs = error instanceof ReseqError ? error.retryAfterMs : 0;
        await pause(Math.max(backoff.nextMs(retryAfterMs), isMissing ? 500 : 0), this.#signal).catch(() => {});
      }
    }
    return undefined;
  }

  async #take(): Promise<void> {
    const inTime = this.#handlerMs === undefined ? 1 : Math.ceil(AHEAD_MS / Math.max(0.01, this.#handlerMs));
    const max = Math.min(this.#max, Math.max(1, inTime));
    const answer = await this.#reseq.transport.once({
      method: "POST",
      path: this.#path,
      body: JSON.stringify({ max, wait_ms: POLL_MS, consumer: this.#name }),
      timeoutMs: POLL_MS + 15_000,
      // An aborted call could have leased messages that nobody would get. Ended like this, it says which.
      endOfWait: this.#signal,
    });
    if (answer.status !== 200) throw refusal(answer);
    const { leaseMs, deliveries } = deliveriesIn(answer.text);
    this.#extendEvery(leaseMs);
    const lanes = new Map<string, HeldLane>();
    for (const { delivery, json } of deliveries) {
      const lane = lanes.get(delivery.lane) ?? new HeldLane();
      lanes.set(delivery.lane, lane);
      lane.lastToken = delivery.token;
      lane.left += 1;
      this.#lanes.add(lane);
      this.#buffer.push(new HeldMessage(delivery, json, lane, this));
    }
  }

  /** The loop went on: the message is accepted, unless it was refused. */
  passed(message: HeldMessage): void {
    this.#current = undefined;
    const ms = performance.now() - this.#beganAt;
    this.#handlerMs = this.#handlerMs === undefined ? ms : this.#handlerMs * 0.8 + ms * 0.2;
    if (message.end()) void this.#report(message);
  }

  async accept(message: HeldMessage): Promise<void> {
    if (!message.end()) return;
    const { status } = await this.#report(message);
    if (status !== "ok" && status !== "settled") throw new Error(`${message.destination}/${message.sequence} is not accepted: ${status}`);
  }

  #report(message: HeldMessage): Promise<Reported> {
    const { token, lane } = message.held();
    lane.left -= 1;
    if (lane.left === 0) this.#lanes.delete(lane);
    const accepted = this.#reports.accept.report(token).then((reported) => {
      this.#accepting.delete(accepted);
      if (reported.status === "stale_lease") this.#lose(lane);
      if (reported.status === "refused") this.#trouble(reported.error);
      return reported;
    });
    this.#accepting.add(accepted);
    return accepted;
  }

  async refuse(message: HeldMessage, error: unknown): Promise<void> {
    if (!message.end()) return;
    const { token, lane } = message.held();
    // What is behind it comes again after it.
    this.#lanes.delete(lane);
    lane.isLost = true;
    const retryMs = isRetry(error) ? `,"retry_ms":${Math.max(0, Math.round(error.afterMs))}` : "";
    const fields = `"error":${JSON.stringify(sentenceOf(error).slice(0, 2000))}${isPermanent(error) ? `,"final":true` : retryMs}`;
    const reported = await this.#reports.refuse.report(token, fields);
    if (reported.status === "refused") throw reported.error;
  }

  #lose(lane: HeldLane): void {
    this.#lanes.delete(lane);
    lane.lose();
  }

  /** The body has lasted too long: the message counts as refused, and others may take what has not begun. */
  async #giveUp(message: HeldMessage): Promise<void> {
    const error = new TimeLimitError("the body of the loop has not ended", this.#attemptTimeoutMs);
    this.#current = undefined;
    this.#buffer.length = 0;
    const { lane } = message.held();
    lane.end(error);
    this.#lanes.delete(lane);
    this.#trouble(error);
    await Promise.all([this.refuse(message, error), this.#requeue()]).catch((refused: unknown) => this.#trouble(refused));
  }

  #extendEvery(leaseMs: number): void {
    if (this.#timer && leaseMs === this.#leaseMs) return;
    clearInterval(this.#timer);
    this.#leaseMs = leaseMs;
    this.#timer = setInterval(() => this.#extendDue(), Math.max(10, Math.min(leaseMs, this.#attemptTimeoutMs) / 9));
  }

  #extendDue(): void {
    const now = performance.now();
    if (this.#current && now - this.#beganAt > this.#attemptTimeoutMs) void this.#giveUp(this.#current);
    for (const lane of this.#lanes) {
      if (now > lane.extendedAt + this.#leaseMs) this.#lose(lane);
      else if (!lane.isExtending && now > lane.extendedAt + this.#leaseMs / 3) void this.#extend(lane);
    }
  }

  async #extend(lane: HeldLane): Promise<void> {
    const at = performance.now();
    lane.isExtending = true;
    const { status } = await this.#reports.extend.report(lane.lastToken);
    lane.isExtending = false;
    if (status === "ok") lane.extendedAt = at;
    // `settled`: all of it is accepted.
    if (status === "stale_lease") this.#lose(lane);
  }

  /** Gives back what was not accepted, once Reseq knows what was. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    const done = this.#requeue();
    const end = new AbortController();
    await Promise.race([done, pause(CLOSE_MS, end.signal).catch(() => {})]);
    end.abort();
    this.#killed.abort(new Error("the loop has ended"));
  }

  async #requeue(): Promise<void> {
    await Promise.all(this.#accepting);
    const lanes = [...this.#lanes];
    this.#lanes.clear();
    await Promise.all(lanes.map((lane) => this.#reports.requeue.report(lane.lastToken)));
  }

  #trouble(error: unknown): void {
    if (this.#killed.signal.aborted) return;
    try {
      this.#onError(error);
    } catch {
      // A listener cannot stop the loop.
    }
  }
}
