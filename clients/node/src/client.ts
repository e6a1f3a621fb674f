import { randomUUID } from "node:crypto";
import type { components } from "./api.js";
import { consume, type ConsumeOptions } from "./consumer/consumer.js";
import type { ConsumedMessage } from "./consumer/message.js";
import { ReseqError } from "./errors.js";
import { checkOptions } from "./options.js";
import { Batcher, LINES_MAX, type Accepted } from "./producer/batcher.js";
import { lineOf, type SendOptions, type Target, type WaitOptions } from "./producer/lines.js";
import { Outcomes, type Outcome } from "./producer/outcomes.js";
import { outputOf } from "./producer/results.js";
import type { Telemetry } from "./telemetry.js";
import { TRANSPORT_OPTIONS, Transport, type Call, type TransportOptions } from "./transport.js";

type Schemas = components["schemas"];

export type StoredCopy = Schemas["StoredCopy"];
export type Destination = Schemas["Destination"];
type DefinitionFields = Schemas["DestinationDefinition"];
/** `url` is required, unless `delivery.kind` is `pull` or `none`. The other fields have defaults, also those of `transform` and `delivery`. */
export type DestinationDefinition = {
  [Name in keyof DefinitionFields]?: (Name extends "transform" | "delivery" ? Loose<DefinitionFields[Name]> : DefinitionFields[Name]) | undefined;
};
type Loose<T> = { [Name in keyof T]?: T[Name] | undefined };
export type DestinationStats = Schemas["Stats"];
export type PendingMessage = Schemas["PendingMessage"];

export interface ReseqOptions extends TransportOptions {
  /**
   * How long a message is tried again while Reseq is busy or does not answer (10 s, so that a request in which you send
   * does not hang). `Infinity` never gives up.
   */
  retryMs?: number | undefined;
  /** The most messages that wait in this process to be sent (10,000); more are refused with `queue_full`. */
  waitingMax?: number | undefined;
  /** Gets to know what is sent, and what workers with this client handle: `openTelemetry()` of `reseq/opentelemetry`. */
  telemetry?: Telemetry | undefined;
}

export const CLIENT_OPTIONS: Record<keyof ReseqOptions, true> = { ...TRANSPORT_OPTIONS, retryMs: true, waitingMax: true, telemetry: true };

/** What stops waiting for an answer. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
}

/** Reseq has the message. */
export interface Receipt {
  id: string;
  destination: string;
  sequence: number;
  epoch: number;
  /** True if a message with this idempotency key had been sent before. */
  duplicate: boolean;
  durability: string;
  /** Resolves when the message has left Reseq: delivered, dropped, set aside as a dead letter, or cancelled. */
  delivered(options?: CallOptions): Promise<Outcome>;
}

/** Reseq has all copies of the message. */
export interface Receipts {
  id: string;
  deliveries: Receipt[];
  delivered(options?: CallOptions): Promise<Outcome[]>;
}

/** A promise of a receipt, with its `delivered()` for a chain without an `await` in between. */
export type Sending<T extends { delivered(options?: CallOptions): unknown }> = Promise<T> & Pick<T, "delivered">;

export interface BatchItem<Body = unknown> extends Omit<SendOptions, "signal"> {
  body: Body;
}

/** The names of destinations and topics. */
export type NameOf<Bodies> = keyof Bodies & string;
/** What goes to several destinations fits each of them. */
type BodyOfAll<Bodies, Name extends NameOf<Bodies>> = { [One in Name]: (body: Bodies[One]) => void }[Name] extends (body: infer Body) => void ? Body : never;

/** Some messages of a `sendBatch` were refused. */
export class BatchError extends Error {
  /** The receipt or the error of each message, in order. */
  readonly results: (Receipt | Error)[];

  constructor(results: (Receipt | Error)[]) {
    const errors = results.filter((result): result is Error => result instanceof Error);
    super(`${errors.length} of ${results.length} messages were not sent: ${errors[0]?.message}`, { cause: errors[0] });
    this.name = "BatchError";
    this.results = results;
  }
}

/**
 * A client of Reseq. One for each process is enough; all parts of a program can share it. With
 * `new Reseq<{ invoices: Order }>()`, only these destinations and topics compile, each with its type of body.
 */
export class Reseq<Bodies extends object = Record<string, any>> {
  /** @internal */
  readonly transport: Transport;
  /** @internal */
  readonly telemetry: Telemetry | undefined;
  readonly #batcher: Batcher;
  readonly #outcomes: Outcomes;
  readonly #retryMs: number;
  readonly #waitingMax: number;
  readonly #keyPrefix = randomUUID();
  #sent = 0;

  constructor(options: ReseqOptions = {}) {
    checkOptions(options, CLIENT_OPTIONS, "Reseq");
    this.transport = new Transport(options);
    this.telemetry = options.telemetry;
    this.#waitingMax = options.waitingMax ?? 10_000;
    this.#batcher = new Batcher(this.transport, this.#waitingMax);
    this.#outcomes = new Outcomes(this.transport);
    this.#retryMs = options.retryMs ?? 10_000;
  }

  // The error of a wrong call ends with the last of these signatures, so the most usual one is the last.
  /** Sends a message to several destinations. */
  send<Name extends NameOf<Bodies>>(destinations: Name[], body: BodyOfAll<Bodies, Name>, options?: SendOptions): Sending<Receipts>;
  /**
   * Sends a message to a destination, and waits until it is processed: the receipt has its `output` (JSON as a value,
   * anything else as a `Buffer`; at most 1 MiB). Throws a `ResultError` if the message fails, or is not processed in time.
   */
  send<Name extends NameOf<Bodies>, Output = any>(destination: Name, body: Bodies[Name], options: WaitOptions): Promise<Receipt & { output: Output }>;
  /**
   * Sends a message to a destination. What is sent in one tick goes as one batch. Messages to one destination are
   * stored in the order of the calls, also if some have to be tried again.
   */
  send<Name extends NameOf<Bodies>>(destination: Name, body: Bodies[Name], options?: SendOptions): Sending<Receipt>;
  send(to: string | string[], body: unknown, options: SendOptions & Partial<WaitOptions> = {}): Sending<Receipt> | Sending<Receipts> | Promise<Receipt & { output: unknown }> {
    if (options.waitFor !== undefined) return this.#processed(to, body, options);
    const several = this.#send({ destinations: typeof to === "string" ? [to] : to }, body, options);
    if (typeof to !== "string") return several;
    return withDelivered<Receipt, Outcome>(several.then(({ deliveries }) => deliveries[0]!));
  }

  async #processed(to: string | string[], body: unknown, options: SendOptions & Partial<WaitOptions>): Promise<Receipt & { output: unknown }> {
    if (typeof to !== "string") throw new TypeError("waitFor: send to one destination, whose output you wait for");
    if (options.waitFor !== "processed") throw new TypeError(`waitFor: "processed" is all there is to wait for, not ${JSON.stringify(options.waitFor)}`);
    const { deliveries } = await this.#send({ destinations: [to] }, body, options);
    const receipt = deliveries[0]!;
    return { ...receipt, output: await outputOf(this.transport, receipt, options.waitMs, options.signal) };
  }

  /** Sends a message to all destinations of a topic. */
  publish<Name extends NameOf<Bodies>>(topic: Name, body: Bodies[Name], options: SendOptions = {}): Sending<Receipts> {
    return this.#send({ topic }, body, options);
  }

  /**
   * Sends many messages to a destination, in order: any number, because a part waits until the one before is stored.
   * Throws a `BatchError` if some were refused.
   */
  async sendBatch<Name extends NameOf<Bodies>>(destination: Name, items: BatchItem<Bodies[Name]>[], options: CallOptions = {}): Promise<Receipt[]> {
    const results: PromiseSettledResult<Receipt>[] = [];
    const part = Math.max(1, Math.min(LINES_MAX, this.#waitingMax));
    for (let from = 0; from < items.length; from += part) {
      const sendings = items.slice(from, from + part).map(({ body, ...fields }) => this.send(destination, body, { ...fields, ...options }));
      results.push(...(await Promise.allSettled(sendings)));
    }
    if (results.every((result) => result.status === "fulfilled")) return results.map((result) => result.value);
    throw new BatchError(results.map((result) => (result.status === "fulfilled" ? result.value : (result.reason as Error))));
  }

  /**
   * Resolves when every message that was sent so far is stored or refused; for example before the program ends. An
   * error is that of the promise of its `send`.
   */
  flush(): Promise<void> {
    return this.#batcher.flush();
  }

  #send(target: Target, body: unknown, options: SendOptions & Partial<WaitOptions>): Sending<Receipts> {
    const to = "topic" in target ? [target.topic] : target.destinations;
    const stored = this.telemetry
      ? this.telemetry.send(to, (headers) => this.#stored(target, body, { ...options, headers: { ...headers, ...options.headers } }))
      : this.#stored(target, body, options);
    return withDelivered<Receipts, Outcome[]>(stored);
  }

  async #stored(target: Target, body: unknown, options: SendOptions & Partial<WaitOptions>): Promise<Receipts> {
    const isOwn = options.idempotencyKey === undefined;
    const key = isOwn ? `${this.#keyPrefix}/${(this.#sent++).toString(36)}` : options.idempotencyKey || undefined;
    const line = lineOf(target, body, options, key);
    const names = "topic" in target ? [`topic ${target.topic}`] : target.destinations;
    const retryMs = options.retryMs ?? this.#retryMs;
    const { accepted, isRetried } = await this.#batcher.add({ names, line, retryMs, signal: options.signal });
    // With a key of its own, a duplicate is the message of an earlier attempt of this very call.
    return this.#receipts(accepted, isOwn && isRetried);
  }

  #receipts(accepted: Accepted, isSameCall: boolean): Receipts {
    const deliveries = accepted.deliveries.map((copy): Receipt => ({
      id: copy.id ?? accepted.id,
      destination: copy.destination,
      sequence: copy.sequence,
      epoch: copy.epoch,
      duplicate: copy.duplicate && !isSameCall,
      durability: copy.durability,
      delivered: ({ signal } = {}) => this.#outcomes.of(copy.destination, copy, signal),
    }));
    return {
      id: accepted.id,
      deliveries,
      delivered: (options) => Promise.all(deliveries.map((copy) => copy.delivered(options))),
    };
  }

  /**
   * Takes the messages of a destination whose delivery is `pull`, each lane in order:
   * `for await (const message of reseq.consume("invoices")) …`. Going on to the next message accepts the one before.
   * `break`, or an error that leaves the loop, gives back the message and all that has not begun. Ends when `signal`
   * is aborted.
   */
  consume<Name extends NameOf<Bodies>>(destination: Name, options: ConsumeOptions = {}): AsyncGenerator<ConsumedMessage<Bodies[Name]>, void, void> {
    return consume(this, destination, options);
  }

  /** Creates a destination, or replaces its definition. */
  define(name: NameOf<Bodies>, definition: DestinationDefinition, options?: CallOptions): Promise<Destination> {
    return this.call("PUT", `/v1/destinations/${encodeURIComponent(name)}`, definition, options);
  }

  /** Creates a topic, or replaces it. */
  defineTopic(name: NameOf<Bodies>, destinations: NameOf<Bodies>[], options?: CallOptions): Promise<Schemas["Topic"]> {
    return this.call("PUT", `/v1/topics/${encodeURIComponent(name)}`, { destinations }, options);
  }

  /** The numbers and the head of a destination. */
  stats(destination: NameOf<Bodies>, options?: CallOptions): Promise<DestinationStats> {
    return this.call("GET", `/v1/destinations/${encodeURIComponent(destination)}/stats`, undefined, options);
  }

  /** The last message with this id of each destination that has one, or what became of it. */
  async find(id: string, options?: CallOptions): Promise<Schemas["MessageFound"][]> {
    return (await this.call<Schemas["MessagesFound"]>("GET", `/v1/messages/by-id/${encodeURIComponent(id)}`, undefined, options)).items;
  }

  /** A message, by its sequence or its id, or what became of it; undefined if Reseq no longer knows. */
  async message(destination: NameOf<Bodies>, which: number | { id: string }, options?: CallOptions) {
    const rest = typeof which === "number" ? which : `by-id/${encodeURIComponent(which.id)}`;
    const path = `/v1/destinations/${encodeURIComponent(destination)}/messages/${rest}`;
    try {
      return await this.call<Partial<Schemas["MessageContent"]> & Partial<Schemas["GoneMessage"]> & { state: string }>("GET", path, undefined, options);
    } catch (error) {
      if (error instanceof ReseqError && error.status === 404) return undefined;
      throw error;
    }
  }

  /**
   * Cancels a pending message, by its sequence or its idempotency key. False if it is not certain: the message
   * has left, or is being processed or delivered now.
   */
  async cancel(destination: NameOf<Bodies>, which: number | { idempotencyKey: string }, options?: CallOptions): Promise<boolean> {
    const path = `/v1/destinations/${encodeURIComponent(destination)}/messages`;
    const rest = typeof which === "number" ? `/${which}` : `?idempotency_key=${encodeURIComponent(which.idempotencyKey)}`;
    try {
      return (await this.call<{ state: string }>("DELETE", path + rest, undefined, options)).state === "cancelled";
    } catch (error) {
      if (!(error instanceof ReseqError) || (error.status !== 404 && error.code !== "wrong_state")) throw error;
      // The answer to an earlier attempt of this call may have been lost.
      return typeof which === "number" && (await this.message(destination, which, options))?.state === "cancelled";
    }
  }

  /** All items of a list, page by page: `reseq.list("/v1/destinations/erp/dead-letters", { key: "acct-7" })`. */
  async *list<T = Record<string, unknown>>(path: string, filters: Record<string, string | number> = {}, options?: CallOptions): AsyncGenerator<T> {
    const query = new URLSearchParams({ limit: "1000" });
    for (const [name, value] of Object.entries(filters)) query.set(name, String(value));
    for (;;) {
      const page = await this.call<{ items: T[]; next_cursor?: string | null }>("GET", `${path}?${query}`, undefined, options);
      yield* page.items;
      if (!page.next_cursor) return;
      query.set("cursor", page.next_cursor);
    }
  }

  /**
   * Any other call of the HTTP API. Repeats it while Reseq is busy or does not answer, for up to `retryMs`; so Reseq
   * may get it twice.
   */
  call<T = unknown>(method: string, path: string, body?: unknown, options: CallOptions & { headers?: Record<string, string> | undefined; retryMs?: number | undefined } = {}): Promise<T> {
    checkOptions(options, { signal: true, headers: true, retryMs: true }, "call");
    const call: Call = { method, path, headers: options.headers, signal: options.signal };
    if (body !== undefined) call.body = JSON.stringify(body);
    return this.transport.untilAnswered<T>(call, options.retryMs ?? this.#retryMs);
  }

  /** Closes idle connections. Calls under way fail. */
  close(): void {
    this.transport.close();
  }
}

function withDelivered<T extends { delivered(options?: CallOptions): Promise<U> }, U>(promise: Promise<T>): Promise<T> & { delivered(options?: CallOptions): Promise<U> } {
  return Object.assign(promise, {
    delivered: async (options?: CallOptions) => (await promise).delivered(options),
  });
}
