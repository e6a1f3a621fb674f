import type { IncomingMessage, ServerResponse } from "node:http";
import type { NameOf, Reseq } from "../client.js";
import { ReseqError, isPermanent, isRetry, sentenceOf } from "../errors.js";
import { answerFetch, answerNode, fastifyPlugin, type FastifyLike, type GuardAnswer, type GuardRequest } from "./adapters.js";
import type { ConsumeOptions } from "../consumer/consumer.js";
import { attemptLimit, checkOptions } from "../options.js";
import type { Telemetry } from "../telemetry.js";
import { TimeLimitError, unlessAborted } from "../timing.js";
import { gapBetween, isBehindGap, type Gap } from "./gaps.js";
import { deliveriesOf, type Delivery } from "./message.js";
import { signatureCheck, type SignatureOptions } from "./signature.js";
import { comparePositions, type LaneState, type OrderStore } from "./store.js";

/** With `secrets`, signatures are verified. */
export interface GuardOptions<Tx> extends Omit<SignatureOptions, "secrets"> {
  secrets?: string[] | undefined;
  /** Where the last position of each lane is kept. */
  store: OrderStore<Tx>;
  /**
   * The `ordering` of the destinations. The default, `key`, is right for `destination` too, except that it may
   * report gaps that are none if the messages have keys.
   */
  ordering?: "key" | "destination" | "none" | undefined;
  /** A client, to ask what became of gaps, and whether idle lanes can be forgotten. */
  reseq?: Reseq<any> | undefined;
  /** Messages of a lane did not come: they were dropped, cancelled or dead-lettered. */
  onGap?: ((gap: Gap) => void) | undefined;
  /** A handler failed, or a gap could not be explored. Without it, errors go to stderr. */
  onError?: ((error: unknown, delivery?: Delivery) => void) | undefined;
  /** Longer requests get 413 (32 MiB). */
  bodyBytesMax?: number | undefined;
  /**
   * How long a delivery may take in this program (60 s; 0: no limit): the wait for its turn and for a connection, and its
   * handler. Then `signal` is aborted, the transaction is rolled back, and Reseq delivers the message again.
   */
  attemptTimeoutMs?: number | undefined;
  /** Gets to know what is handled: `openTelemetry()` of `reseq/opentelemetry`. */
  telemetry?: Telemetry | undefined;
  /** Forgets lanes that had no message for this long (at least an hour is wise). Without it, none is forgotten. */
  forgetAfterMs?: number | undefined;
}

const GUARD_OPTIONS: Record<keyof GuardOptions<unknown>, true> = {
  store: true, ordering: true, reseq: true, onGap: true, onError: true, bodyBytesMax: true, attemptTimeoutMs: true, telemetry: true, forgetAfterMs: true, secrets: true, toleranceSeconds: true,
};

export interface DeliveryContext {
  /** Aborted after `attemptTimeoutMs`, or when a consumer loses its lease: stop, the transaction is rolled back. */
  signal: AbortSignal;
}

/** Handles one message. With an SQL store, write with `tx`. What it throws makes Reseq deliver the message again. */
export type DeliveryHandler<Tx, Body = any> = (message: Delivery<Body>, tx: Tx, context: DeliveryContext) => unknown;
/** Handles the new messages of a batch of one lane, all in one transaction. */
export type BatchHandler<Tx, Body = any> = (messages: Delivery<Body>[], tx: Tx, context: DeliveryContext) => unknown;

type Apply<Tx> = { handler: DeliveryHandler<Tx>; batch?: undefined } | { handler?: undefined; batch: BatchHandler<Tx> };

const FORGET_LIMIT = 500;
const SIGNALS_BODY = { "content-type": "text/plain; charset=utf-8" };

/** Calls handlers in order and recognises repeats. */
export class OrderGuard<Tx> {
  /** Requests under way, by lane and position: a repeat gets the outcome of the first. */
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #forgetting: NodeJS.Timeout | undefined;
  readonly #wrongSignature: ReturnType<typeof signatureCheck> | undefined;
  readonly #attemptTimeoutMs: number;

  constructor(private readonly options: GuardOptions<Tx>) {
    checkOptions(options, GUARD_OPTIONS, "orderGuard");
    const { forgetAfterMs, secrets } = options;
    this.#attemptTimeoutMs = attemptLimit(options.attemptTimeoutMs ?? 60_000);
    this.#wrongSignature = secrets && signatureCheck({ ...options, secrets });
    if (forgetAfterMs === undefined) return;
    this.#forgetting = setInterval(() => {
      this.forgetIdle().catch((error: unknown) => this.#report(error));
    }, Math.min(3_600_000, Math.max(1000, forgetAfterMs / 4)));
    this.#forgetting.unref();
  }

  /** A listener for `node:http`: `createServer(guard.node(handler))`. */
  node<Body = any>(handler: DeliveryHandler<Tx, Body>) {
    return this.#node({ handler });
  }

  /** A handler for Express: `app.post("/in", guard.express(handler))`, before parsers of bodies. */
  express<Body = any>(handler: DeliveryHandler<Tx, Body>) {
    return this.#node({ handler });
  }

  /** A plugin for Fastify: `app.register(guard.fastify("/in", handler))`. */
  fastify<Body = any>(path: string, handler: DeliveryHandler<Tx, Body>): (app: FastifyLike) => Promise<void> {
    return fastifyPlugin(path, this.#bytesMax, (request) => this.#answer(request, { handler }));
  }

  /** A handler for Hono: `app.post("/in", guard.hono(handler))`. */
  hono<Body = any>(handler: DeliveryHandler<Tx, Body>): (context: { req: { raw: Request } }) => Promise<Response> {
    const answer = this.fetch(handler);
    return (context) => answer(context.req.raw);
  }

  /** From a `Request` to a `Response`. */
  fetch<Body = any>(handler: DeliveryHandler<Tx, Body>): (request: Request) => Promise<Response> {
    return (request) => answerFetch(request, this.#bytesMax, (one) => this.#answer(one, { handler }));
  }

  /** As `node`, for destinations with `batch_max` above 1: the handler gets the new messages of a batch together. */
  nodeBatch<Body = any>(batch: BatchHandler<Tx, Body>) {
    return this.#node({ batch });
  }

  /**
   * Takes the messages of a destination whose delivery is `pull`, and calls the handler as for deliveries: repeats are
   * accepted without a call. Resolves when `signal` of the options is aborted.
   */
  async consume<Bodies extends object, Name extends NameOf<Bodies>>(reseq: Reseq<Bodies>, destination: Name, handler: DeliveryHandler<Tx, Bodies[Name]>, options: ConsumeOptions = {}): Promise<void> {
    for await (const message of reseq.consume(destination, options)) {
      const { id, key, epoch, sequence, previous = null, attempt, contentType, headers, body } = message;
      const fields = { destination, id, key, epoch, sequence, previous, attempt, origin: null, contentType, headers, body };
      const delivery: Delivery = { ...fields, get raw() { return message.raw; } };
      try {
        await this.#accept([delivery], ([one], tx, context) => handler(one!, tx, context), message.signal);
      } catch (error) {
        this.#report(error, delivery);
        await message.refuse(error);
      }
    }
  }

  /** Forgets lanes that were idle for `forgetAfterMs` and whose last message has left Reseq. Returns how many. */
  async forgetIdle(): Promise<number> {
    const { store, forgetAfterMs = 0 } = this.options;
    let forgotten = 0;
    for (const { lane, state } of await store.idleSince(Date.now() - forgetAfterMs, FORGET_LIMIT)) {
      if (await this.#isPending(lane, state)) continue;
      await store.forget(lane, state);
      forgotten += 1;
    }
    return forgotten;
  }

  /** Ends the regular forgetting. */
  close(): void {
    clearInterval(this.#forgetting);
  }

  get #bytesMax() {
    return this.options.bodyBytesMax ?? 32 << 20;
  }

  #node(apply: Apply<Tx>) {
    return (request: IncomingMessage, response: ServerResponse): void => {
      void answerNode(request, response, this.#bytesMax, (one) => this.#answer(one, apply));
    };
  }

  async #answer({ header, headers, raw }: GuardRequest, apply: Apply<Tx>): Promise<GuardAnswer> {
    const wrong = this.#wrongSignature?.(header, raw);
    if (wrong) return { status: 401, headers: SIGNALS_BODY, body: wrong };
    let deliveries: Delivery[];
    try {
      deliveries = deliveriesOf(header, headers, raw);
    } catch (error) {
      return { status: 400, headers: SIGNALS_BODY, body: sentenceOf(error) };
    }
    let accepted = 0;
    try {
      if (apply.batch) await this.#acceptBatch(deliveries, apply.batch);
      else for (; accepted < deliveries.length; accepted += 1) await this.#accept([deliveries[accepted]!], ([one], tx, context) => apply.handler(one!, tx, context));
      return { status: 204, headers: {}, body: "" };
    } catch (error) {
      this.#report(error, deliveries[accepted]);
      // Reseq continues behind those that were accepted.
      if (accepted > 0) return { status: 200, headers: { "content-type": "application/json" }, body: JSON.stringify({ accepted }) };
      return answerOf(error);
    }
  }

  async #acceptBatch(deliveries: Delivery[], handler: BatchHandler<Tx>): Promise<void> {
    if (new Set(deliveries.map((one) => this.#laneOf(one))).size > 1) {
      throw new Error("the messages of a batch have several keys: set ordering of the guard as the destination has it");
    }
    await this.#accept(deliveries, handler);
  }

  /** Some messages of one lane, in order. A repeat of a request under way waits for its outcome. */
  #accept(deliveries: Delivery[], handler: BatchHandler<Tx>, lease?: AbortSignal): Promise<void> {
    const [first, last] = [deliveries[0]!, deliveries.at(-1)!];
    const lane = this.#laneOf(first);
    const request = `${first.epoch}/${first.sequence}/${last.epoch}/${last.sequence} ${lane}`;
    const same = this.#underWay.get(request);
    if (same) return same;
    const mine = this.#withLimit((context, tell) => this.#apply(lane, deliveries, handler, context, tell), lease).finally(() => this.#underWay.delete(request));
    this.#underWay.set(request, mine);
    return mine;
  }

  /** Gives up after `attemptTimeoutMs`, or if the lease is lost. Says what it waited for: `tell` names the next step. */
  async #withLimit(work: (context: DeliveryContext, tell: (step: string) => void) => Promise<void>, lease?: AbortSignal): Promise<void> {
    const abort = new AbortController();
    const onLost = () => abort.abort(lease!.reason);
    let step = "the delivery got no turn in its lane and no connection of the store";
    const timer = this.#attemptTimeoutMs < Infinity ? setTimeout(() => abort.abort(new TimeLimitError(step, this.#attemptTimeoutMs)), this.#attemptTimeoutMs) : undefined;
    lease?.addEventListener("abort", onLost, { once: true });
    try {
      await unlessAborted(abort.signal, work({ signal: abort.signal }, (next) => (step = next)));
    } finally {
      clearTimeout(timer);
      lease?.removeEventListener("abort", onLost);
    }
  }

  async #apply(lane: string, deliveries: Delivery[], handler: BatchHandler<Tx>, context: DeliveryContext, tell: (step: string) => void): Promise<void> {
    const gaps: [LaneState, Delivery][] = [];
    await this.options.store.within(lane, async ({ last, tx, record }) => {
      // Not the reason of the signal: no handler has the transaction, so the store may roll it back as any other.
      if (context.signal.aborted) throw new Error("the request was given up while it waited; it comes again");
      gaps.length = 0; // a store may run a transaction again
      const fresh: Delivery[] = [];
      let end = last;
      for (const delivery of deliveries) {
        this.#check(delivery, end);
        if (end && comparePositions(delivery, end) <= 0) continue;
        if (isBehindGap(delivery, end)) gaps.push([end!, delivery]);
        end = { epoch: delivery.epoch, sequence: delivery.sequence, isFirst: delivery.previous === 0 };
        fresh.push(delivery);
      }
      if (fresh.length === 0) return;
      tell("the handler has not finished");
      const { telemetry } = this.options;
      const run = async () => handler(fresh, tx, context);
      await unlessAborted(context.signal, telemetry ? telemetry.handle(fresh, run) : run());
      tell("the store has not stored the position");
      await record(end!);
    });
    for (const [last, delivery] of gaps) void this.#tellGap(last, delivery);
  }

  #laneOf({ destination, key, epoch, sequence }: Delivery): string {
    const { ordering } = this.options;
    if (ordering === "none") return `${destination}//${epoch}/${sequence}`;
    return ordering === "destination" || key === null ? destination : `${destination}/${key}`;
  }

  /**
   * Refuses messages that cannot come from a destination with the ordering of this guard, before it could take one for
   * a repeat that is none: `previous` would be different (docs/reference/delivery.md, Gaps).
   */
  #check({ destination, previous, epoch, sequence }: Delivery, last: LaneState | undefined): void {
    const { ordering } = this.options;
    if (ordering === "none") return;
    if (ordering === "destination") {
      if (previous === sequence - 1) return;
    } else {
      const isOther = last?.epoch === epoch && last.sequence !== sequence;
      if (previous !== 0 || !isOther || (sequence < last.sequence && !last.isFirst)) return;
    }
    const detail = `${destination} does not order by ${ordering ?? "key"}: set ordering of the guard as the destination has it`;
    throw new ReseqError({ code: "wrong_state", detail });
  }

  async #tellGap(last: LaneState, delivery: Delivery): Promise<void> {
    const { onGap, reseq, ordering } = this.options;
    if (!onGap) return;
    try {
      const gap = await gapBetween(last, delivery, ordering === "destination", reseq);
      if (gap) onGap(gap);
    } catch (error) {
      this.#report(error, delivery);
    }
  }

  /** True if Reseq may deliver the last message of a lane again. */
  async #isPending(lane: string, { epoch, sequence }: LaneState): Promise<boolean> {
    const { reseq } = this.options;
    if (!reseq || sequence === 0) return false;
    const message = await reseq.message(lane.split("/")[0]!, sequence);
    const hasLeft = ["delivered", "dropped", "dead_lettered", "cancelled"];
    return message !== undefined && message.epoch === epoch && !hasLeft.includes(message.state);
  }

  #report(error: unknown, delivery?: Delivery): void {
    const { onError } = this.options;
    try {
      if (onError) return onError(error, delivery);
    } catch {
      // The answer to Reseq matters more.
    }
    const what = delivery ? `${delivery.destination}/${delivery.sequence}: ` : "";
    console.error(`reseq: ${what}${sentenceOf(error)}`);
  }
}

/** A guard for the receivers of one program. */
export const orderGuard = <Tx = undefined>(options: GuardOptions<Tx>): OrderGuard<Tx> => new OrderGuard(options);

function answerOf(error: unknown): GuardAnswer {
  const body = sentenceOf(error).slice(0, 2000);
  if (isPermanent(error)) return { status: 422, headers: SIGNALS_BODY, body };
  if (!isRetry(error)) return { status: 500, headers: SIGNALS_BODY, body };
  return { status: 503, headers: { ...SIGNALS_BODY, "retry-after": String(Math.ceil(error.afterMs / 1000)) }, body };
}
