import type { components } from "../api.js";
import { elementsOf, spanOf } from "../span.js";
import { LeasedMessage, type Message } from "../worker/message.js";
import type { HeldLane } from "./lane.js";

export type Delivery = components["schemas"]["ConsumedMessage"] & { body?: unknown; body_base64?: string };

/** A message that this consumer holds. Going on to the next one accepts it. */
export interface ConsumedMessage<Body = any> extends Omit<Message<Body>, "checkpoint"> {
  /** The messages of a lane come in order, and no other consumer has one of them. */
  lane: string;
  /** The sequence of the message before it in its lane: 0 if it is the first, undefined if it is not known. */
  previous: number | undefined;
  /** Aborted when the lease is lost: stop, another consumer gets the message. */
  readonly signal: AbortSignal;
  /** Accepts it now, for example before `break`. Rejects if the lease is lost. */
  accept(): Promise<void>;
  /**
   * It could not be handled: it comes again later, before all others of its lane. `Retry` says when, `Permanent` ends
   * it (`on_exhausted` of the destination). Then go on with `continue`.
   */
  refuse(error: unknown): Promise<void>;
}

/** What the loop does with a message. */
export interface Acknowledging {
  accept(item: HeldMessage): Promise<void>;
  refuse(item: HeldMessage, error: unknown): Promise<void>;
}

export class HeldMessage extends LeasedMessage implements ConsumedMessage {
  readonly lane: string;
  readonly previous: number | undefined;
  readonly accept: () => Promise<void>;
  readonly refuse: (error: unknown) => Promise<void>;
  /** It was accepted or refused. */
  #isDone = false;
  readonly #of: { token: string; lane: HeldLane };

  constructor(delivery: Delivery, json: () => string, lane: HeldLane, by: Acknowledging) {
    super({ ...delivery, checkpoint: null }, json);
    this.lane = delivery.lane;
    this.previous = delivery.previous ?? undefined;
    this.#of = { token: delivery.token, lane };
    this.accept = () => by.accept(this);
    this.refuse = (error) => by.refuse(this, error);
  }

  get signal(): AbortSignal {
    return this.#of.lane.signal;
  }

  /** @internal */
  held(): { token: string; lane: HeldLane } {
    return this.#of;
  }

  /** @internal True the first time. */
  end(): boolean {
    const isFirst = !this.#isDone;
    this.#isDone = true;
    return isFirst;
  }
}

/** The messages in an answer, in order. */
export function deliveriesIn(text: string): { leaseMs: number; deliveries: { delivery: Delivery; json: () => string }[] } {
  const answer = JSON.parse(text) as { lease_ms: number; deliveries: Delivery[] };
  let texts: string[] | undefined;
  const textOf = (at: number) => (texts ??= elementsOf(text, ["deliveries"]))[at]!;
  const deliveries = answer.deliveries.map((delivery, at) => ({ delivery, json: () => spanOf(textOf(at), ["body"]) }));
  return { leaseMs: answer.lease_ms, deliveries };
}
