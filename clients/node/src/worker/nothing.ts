import type { Reseq } from "../client.js";
import { ReseqError } from "../errors.js";

/** The definition may change: then a handler that returns nothing is a mistake again. */
const KNOWN_MS = 10_000;

/** Tells whether handlers of a destination may return nothing: `delivery.kind` is `none`, so nobody gets the output. */
export class MayReturnNothing {
  readonly #known = new Map<string, { at: number; answer: Promise<boolean> }>();

  constructor(
    private readonly reseq: Reseq<any>,
    private readonly signal: AbortSignal,
  ) {}

  async for(destination: string): Promise<boolean> {
    const known = this.#known.get(destination);
    if (known && performance.now() - known.at < KNOWN_MS) return known.answer;
    const answer = this.#ask(destination);
    this.#known.set(destination, { at: performance.now(), answer });
    return answer;
  }

  async #ask(destination: string): Promise<boolean> {
    try {
      const path = `/v1/destinations/${encodeURIComponent(destination)}`;
      const found = await this.reseq.call<{ delivery?: { kind?: string } }>("GET", path, undefined, { signal: this.signal, retryMs: Infinity });
      return found.delivery?.kind === "none";
    } catch (error) {
      // The destination was removed, or the token may not read it.
      if (error instanceof ReseqError || this.signal.aborted) return false;
      throw error;
    }
  }
}
