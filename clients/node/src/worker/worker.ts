import { CLIENT_OPTIONS, Reseq, type NameOf } from "../client.js";
import { ReseqError, asError, isLater, isPermanent, isRetry, sentenceOf, type Later } from "../errors.js";
import { attemptLimit, checkOptions, whole } from "../options.js";
import { jsonOf } from "../producer/lines.js";
import { checkedBody, type StandardSchema } from "../schema.js";
import { pause } from "../timing.js";
import { refusal } from "../transport.js";
import { SafeEvents, type WorkerEvents } from "./events.js";
import { BULLMQ_OPTIONS, WORKER_OPTIONS, type AnyOutput, type BodyOf, type Context, type Handler, type WorkerOptions } from "./handler.js";
import { Held, Keeper } from "./held.js";
import { leasesIn, type Leased, type Message } from "./message.js";
import { checkedName, newName } from "./name.js";
import { MayReturnNothing } from "./nothing.js";
import { REQUEUE, completionOf } from "./outputs.js";
import { Prefetch } from "./prefetch.js";
import { Reports, type Reported } from "./reports.js";
import { closeOnSignals } from "./signals.js";
import { ThreadPool } from "./threads.js";

const POLL_MS = 20_000;
/** With a listener for `drained`, an idle worker asks this long before it says so. */
const DRAINED_POLL_MS = 200;
const LEASES_MAX = 1000;
const REPORTING_MAX = 2000;
const REPORTING_BYTES_MAX = 64 << 20;
/** What was leased ahead and waits for longer goes back: the handlers have become slow. */
const BUFFERED_MS_MAX = 1000;

/**
 * Leases messages of some destinations, hands them to a handler, and reports what becomes of them. The types are those
 * of the body and of the output: `new Worker<Order, Invoice>(…)`. Without them, the client in `reseq` says which names
 * there are, and which body each has.
 * An attempt that neither ends nor saves a checkpoint within `attemptTimeoutMs` fails, and its `signal` is aborted.
 */
export class Worker<Body = any, Result = AnyOutput, Checkpoint = any, Bodies extends object = any, Name extends NameOf<Bodies> = NameOf<Bodies>> {
  /** The name under which this worker leases messages. */
  readonly name: string;
  readonly #reseq: Reseq<any>;
  readonly #isOwnClient: boolean;
  readonly #destinations: string[];
  readonly #handler: (message: Message, context: Context) => unknown;
  readonly #schema: StandardSchema | undefined;
  readonly #threads: ThreadPool | undefined;
  readonly #concurrency: number;
  readonly #leaseMs: number;
  readonly #prefetch: Prefetch;
  readonly #events = new SafeEvents();
  readonly #closing = new AbortController();
  readonly #killed = new AbortController();
  readonly #reports: Record<"complete" | "fail" | "extend" | "requeue", Reports>;
  readonly #keeper: Keeper;
  readonly #buffer: Held[] = [];
  readonly #mayReturnNothing: MayReturnNothing;
  readonly #finishing = new Set<Promise<void>>();
  readonly #claiming: Promise<unknown>;
  readonly #offSignals: () => void;
  #active = 0;
  #reporting = 0;
  /** Messages that the calls under way may lease. */
  #asked = 0;
  #hasWorked = false;
  #wakes: (() => void)[] = [];
  #closed: Promise<void> | undefined;

  /** `handler` is a function, or the URL or path of a module whose default export is one: it then runs in threads. */
  constructor(destinations: Name | Name[], handler: Handler<BodyOf<Body, Bodies, Name>, NoInfer<Result>, Checkpoint> | URL | string, options: WorkerOptions<Body, Bodies> = {}) {
    checkOptions(options, WORKER_OPTIONS, "Worker", BULLMQ_OPTIONS);
    this.#destinations = typeof destinations === "string" ? [destinations] : [...destinations];
    this.name = options.name === undefined ? newName() : checkedName(options.name);
    this.#concurrency = whole(options.concurrency ?? 8, "concurrency", 1, 1000);
    this.#leaseMs = whole(options.leaseMs ?? 30_000, "leaseMs", 100, 86_400_000);
    this.#schema = options.schema;
    this.#isOwnClient = options.reseq === undefined;
    this.#reseq = options.reseq ?? new Reseq(Object.fromEntries(Object.entries(options).filter(([name]) => name in CLIENT_OPTIONS)));
    this.#mayReturnNothing = new MayReturnNothing(this.#reseq, this.#killed.signal);
    const inThreads = (module: URL | string) => new ThreadPool(module, this.#concurrency, (error) => this.#trouble(error), this.#closing.signal);
    this.#threads = typeof handler === "function" ? undefined : inThreads(handler);
    this.#handler = typeof handler === "function" ? handler : (message, context) => this.#threads!.run(message, context);
    this.#prefetch = new Prefetch(this.#concurrency, options.prefetchMax);
    // A pod that hangs must not cost a lease: another pod is asked in time.
    const reportMs = Math.min(10_000, Math.max(500, this.#leaseMs / 3));
    const reports = (kind: "complete" | "fail" | "extend" | "requeue") =>
      new Reports(this.#reseq.transport, `/v1/leases/${kind}`, (error) => this.#trouble(error), this.#killed.signal, reportMs);
    this.#reports = { complete: reports("complete"), fail: reports("fail"), extend: reports("extend"), requeue: reports("requeue") };
    const attemptTimeoutMs = attemptLimit(options.attemptTimeoutMs ?? 900_000);
    this.#keeper = new Keeper(this.#leaseMs, attemptTimeoutMs, this.#reports.extend, (held, reported) => this.#lost(held, reported), () => this.#returnOld());
    const timeoutMs = whole(options.closeMs ?? 25_000, "closeMs", 0, 86_400_000);
    this.#offSignals = options.closeOn ? closeOnSignals(options.closeOn, () => this.close({ timeoutMs })) : () => {};
    // Where messages are leased ahead, a second call is on its way while the answer of the first is worked off.
    this.#claiming = Promise.all([this.#claim(), this.#claim()]);
  }

  on<Name extends keyof WorkerEvents>(name: Name, listener: (...args: WorkerEvents[Name]) => unknown): this {
    this.#events.on(name, listener);
    return this;
  }

  once<Name extends keyof WorkerEvents>(name: Name, listener: (...args: WorkerEvents[Name]) => unknown): this {
    this.#events.once(name, listener);
    return this;
  }

  off<Name extends keyof WorkerEvents>(name: Name, listener: (...args: WorkerEvents[Name]) => unknown): this {
    this.#events.off(name, listener);
    return this;
  }

  /**
   * Leases no more, returns at once what has not begun, finishes the rest, and reports it. With `timeoutMs`, what has
   * not finished by then is aborted; its messages wait until their leases expire.
   */
  close(options: { timeoutMs?: number | undefined } = {}): Promise<void> {
    checkOptions(options, { timeoutMs: true }, "close");
    this.#closed ??= this.#close();
    const { timeoutMs } = options;
    if (timeoutMs !== undefined) setTimeout(() => this.#kill(), timeoutMs).unref();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    this.#wake();
    this.#returnAll();
    const done = (async () => {
      await this.#claiming;
      while (this.#finishing.size > 0) await Promise.all(this.#finishing);
    })();
    const killed = new Promise<void>((resolve) => this.#killed.signal.addEventListener("abort", () => resolve(), { once: true }));
    await Promise.race([done, killed]);
    this.#keeper.stop();
    this.#offSignals();
    await this.#threads?.close();
    if (this.#isOwnClient) this.#reseq.close();
  }

  #kill(): void {
    for (const held of this.#keeper.held) held.lose();
    this.#killed.abort(new Error("the worker was closed"));
  }

  /** Leases messages as long as the worker is open. */
  async #claim(): Promise<void> {
    const backoff = this.#reseq.transport.newBackoff();
    while (!this.#closing.signal.aborted) {
      await this.#threads?.ready();
      if (this.#closing.signal.aborted) break;
      const max = this.#room();
      if (max === 0) {
        await new Promise<void>((resolve) => this.#wakes.push(resolve));
        continue;
      }
      try {
        this.#asked += max;
        const leases = await this.#lease(max).finally(() => (this.#asked -= max));
        backoff.reset();
        if (leases.length === 0) this.#idle();
        this.#take(leases);
      } catch (error) {
        if (this.#closing.signal.aborted) break;
        this.#trouble(error);
        const retryAfterMs = error instanceof ReseqError ? error.retryAfterMs : 0;
        const waitMs = Math.max(backoff.nextMs(retryAfterMs), isLasting(error) ? 500 : 0);
        await pause(waitMs, this.#closing.signal).catch(() => {});
      }
    }
    this.#returnAll();
  }

  /** How many messages to lease now. Waits for room for several where messages are leased ahead. */
  #room(): number {
    if (this.#reporting >= REPORTING_MAX || this.#reports.complete.bytes >= REPORTING_BYTES_MAX) return 0;
    const ahead = this.#prefetch.count;
    const coming = this.#buffer.length + this.#asked;
    const free = this.#concurrency - this.#active - coming;
    if (free <= 0 && coming > ahead / 2) return 0;
    // Each of the two calls that may be under way asks for half of what is leased ahead.
    return Math.min(LEASES_MAX, Math.max(0, free + ahead), Math.max(0, free) + Math.ceil(ahead / 2));
  }

  /** Lets the loops that wait for room look again. */
  #wake(): void {
    for (const wake of this.#wakes.splice(0)) wake();
  }

  async #lease(max: number): Promise<Leased[]> {
    const mayTellDrained = this.#hasWorked && this.#keeper.held.size === 0 && this.#events.has("drained");
    const wait_ms = mayTellDrained ? DRAINED_POLL_MS : POLL_MS;
    const answer = await this.#reseq.transport.once({
      method: "POST",
      path: "/v1/leases",
      body: JSON.stringify({ destinations: this.#destinations, max, wait_ms, lease_ms: this.#leaseMs, worker: this.name, suspects: !this.#holdsSuspect() }),
      timeoutMs: wait_ms + 15_000,
      // An aborted call could have leased messages that nobody would get. Ended like this, it says which.
      endOfWait: this.#closing.signal,
      signal: this.#killed.signal,
    });
    if (answer.status !== 200) throw refusal(answer);
    const { leases, damaged } = leasesIn(answer.text);
    if (damaged.length > 0) {
      this.#trouble(new ReseqError({ code: "damaged", detail: `data of ${damaged.join(", ")} cannot be read`, status: 500 }));
    }
    return leases;
  }

  #take(leases: Leased[]): void {
    // Two calls may have been under way.
    const isSecond = this.#holdsSuspect();
    for (const leased of leases) {
      const held = new Held(leased);
      this.#keeper.held.add(held);
      if (leased.suspect && isSecond) this.#giveBack(held);
      else this.#buffer.push(held);
    }
    this.#startSome();
  }

  #holdsSuspect(): boolean {
    for (const held of this.#keeper.held) if (held.leased.suspect) return true;
    return false;
  }

  #startSome(): void {
    while (this.#active < this.#concurrency && this.#buffer.length > 0 && !this.#closing.signal.aborted) {
      const held = this.#buffer.shift()!;
      if (held.isLost) continue;
      this.#active += 1;
      this.#hasWorked = true;
      held.state = "active";
      held.progressedAt = performance.now();
      const done: Promise<void> = this.#handle(held).then(() => void this.#finishing.delete(done));
      this.#finishing.add(done);
    }
    if (this.#room() > 0) this.#wake();
  }

  /** From the handler to the answer to the report. Never rejects. */
  async #handle(held: Held): Promise<void> {
    const { message, leased } = held;
    this.#events.tell("active", message);
    const began = performance.now();
    let output: unknown;
    let fields: string | undefined;
    let failure: { thrown: unknown; isFinal: boolean } | undefined;
    try {
      output = await new Promise((resolve, reject) => {
        held.giveUp = reject;
        // Not `resolve(promise)`: it could not be rejected any more.
        void this.#handled(message, this.#context(held)).then(resolve, reject);
      });
      try {
        const isNothing = output === undefined && (await this.#mayReturnNothing.for(message.destination));
        if (output !== REQUEUE && !isLater(output)) fields = completionOf(isNothing ? null : output, leased);
      } catch (thrown) {
        // The handler is wrong: another attempt would only repeat its effects.
        failure = { thrown, isFinal: true };
      }
    } catch (thrown) {
      failure = { thrown, isFinal: isPermanent(thrown) };
    }
    this.#prefetch.handled(performance.now() - began, leased.bytes);
    this.#active -= 1;
    this.#reporting += 1;
    held.state = "reporting";
    this.#startSome();
    if (!held.isLost) {
      const ended = failure ? failure.thrown : output;
      if (isLater(ended)) await this.#later(held, ended);
      else if (failure) await this.#fail(held, failure.thrown, failure.isFinal);
      else if (fields === undefined) await this.#reports.requeue.report(held.token);
      else await this.#complete(held, fields, output);
    }
    this.#reporting -= 1;
    this.#keeper.held.delete(held);
    if (this.#room() > 0) this.#wake();
  }

  #handled(message: Message, context: Context): Promise<unknown> {
    const { telemetry } = this.#reseq;
    const run = async () => {
      if (this.#schema) message.body = await checkedBody(message, this.#schema);
      return this.#handler(message, context);
    };
    return telemetry ? telemetry.handle([message], run) : run();
  }

  #context(held: Held): Context {
    const { message } = held;
    return {
      // Most handlers never look at it, so it is made when asked for.
      get signal() {
        return held.signal;
      },
      stopping: this.#closing.signal,
      checkpoint: async (value) => {
        held.progressedAt = performance.now();
        if (held.ended) throw held.ended;
        const reported = await this.#keeper.extend(held, jsonOf(value, "the checkpoint"));
        if (reported.status === "refused") throw reported.error;
        if (reported.status !== "ok") throw new Error(`the checkpoint is not saved: ${reported.status}`);
      },
      progress: (value) => {
        held.progressedAt = performance.now();
        this.#events.tell("progress", message, value);
      },
      log: (text) => this.#events.tell("log", message, text),
    };
  }

  async #complete(held: Held, fields: string, output: unknown): Promise<void> {
    const reported = await this.#whileLeased(held, () => this.#reports.complete.report(held.token, fields));
    // `settled`: an earlier call, whose answer was lost, has completed it.
    if (reported.status === "ok" || reported.status === "settled") this.#events.tell("completed", held.message, output);
    else if (reported.status === "refused") await this.#fail(held, reported.error, true);
    else if (!held.isLost) this.#events.tell("stalled", held.message);
  }

  async #fail(held: Held, thrown: unknown, isFinal: boolean): Promise<void> {
    const error = JSON.stringify(sentenceOf(thrown).slice(0, 2000));
    const retryMs = isRetry(thrown) ? `,"retry_ms":${Math.max(0, Math.round(thrown.afterMs))}` : "";
    const fields = `"error":${error}${isFinal ? `,"final":true` : retryMs}`;
    const reported = await this.#whileLeased(held, () => this.#reports.fail.report(held.token, fields));
    if (reported.status === "refused") this.#trouble(reported.error);
    else if (reported.status === "stale_lease") return void (!held.isLost && this.#events.tell("stalled", held.message));
    this.#events.tell("failed", held.message, asError(thrown), ("exhausted" in reported && reported.exhausted) || null);
  }

  /** Asks for the message later. */
  async #later(held: Held, asked: Later): Promise<void> {
    const reported = await this.#whileLeased(held, () => this.#reports.requeue.report(held.token, `"delay_ms":${asked.afterMs}`));
    if (reported.status === "refused") this.#trouble(reported.error);
    else if (reported.status === "stale_lease") return void (!held.isLost && this.#events.tell("stalled", held.message));
    else if (reported.exhausted) this.#events.tell("failed", held.message, asked, reported.exhausted);
  }

  /** Reports again while Reseq cannot read the lane and the lease lasts. */
  async #whileLeased(held: Held, report: () => Promise<Reported>): Promise<Reported> {
    for (;;) {
      const reported = await report();
      const isOver = held.isLost || performance.now() > held.extendedAt + this.#leaseMs;
      if (reported.status !== "damaged" || isOver) return reported;
      const { destination, sequence } = held.message;
      this.#trouble(new ReseqError({ code: "damaged", detail: `${destination}/${sequence} cannot be read`, status: 500 }));
      await pause(1000, this.#killed.signal).catch(() => {});
      if (this.#killed.signal.aborted) return reported;
    }
  }

  #lost(held: Held, reported: Reported): void {
    const exhausted = ("exhausted" in reported && reported.exhausted) || null;
    if (reported.status === "attempt_timeout") this.#events.tell("failed", held.message, held.ended!, exhausted);
    else if (held.state === "active") this.#events.tell("stalled", held.message);
    if (held.state === "buffered") this.#keeper.held.delete(held);
  }

  #idle(): void {
    if (!this.#hasWorked || this.#keeper.held.size > 0) return;
    this.#hasWorked = false;
    this.#events.tell("drained");
  }

  #returnOld(): void {
    const oldest = this.#buffer[0];
    if (!oldest || performance.now() - oldest.since < Math.min(BUFFERED_MS_MAX, this.#leaseMs / 3)) return;
    if (this.#active < this.#concurrency) return;
    this.#prefetch.reset();
    this.#returnAll();
  }

  /** Gives back what no handler has begun. */
  #returnAll(): void {
    for (const held of this.#buffer.splice(0)) if (!held.isLost) this.#giveBack(held);
  }

  #giveBack(held: Held): void {
    const done: Promise<void> = this.#reports.requeue.report(held.token).then(() => {
      this.#keeper.held.delete(held);
      this.#finishing.delete(done);
    });
    this.#finishing.add(done);
  }

  #trouble(error: unknown): void {
    if (!this.#killed.signal.aborted) this.#events.tell("error", asError(error));
  }
}

/** What a quick repeat does not change: a destination that does not exist (yet), a wrong token. */
const isLasting = (error: unknown) => error instanceof ReseqError && !error.isTemporary;
