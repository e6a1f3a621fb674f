/** What is leased ahead is worked off in about this time. */
const AHEAD_MS = 10;
const AHEAD_MAX = 1000;
const AHEAD_BYTES_MAX = 8 << 20;
/** No handler takes less: a timer of its own would. */
const HANDLER_MS_MIN = 0.02;

/**
 * How many messages to lease beyond those that are being handled. With fast handlers, a call to Reseq for each
 * message would cost more than the work; with slow ones, what is leased ahead is missing at other workers.
 */
export class Prefetch {
  #handlerMs: number | undefined;
  #bytes = 0;

  constructor(
    private readonly concurrency: number,
    private readonly max = AHEAD_MAX,
  ) {}

  handled(ms: number, bytes: number): void {
    this.#handlerMs = this.#handlerMs === undefined ? ms : this.#handlerMs * 0.9 + ms * 0.1;
    this.#bytes = this.#bytes * 0.9 + bytes * 0.1;
  }

  /** Handlers have become slow: lease nothing ahead until they have shown how long they take. */
  reset(): void {
    this.#handlerMs = undefined;
  }

  get count(): number {
    if (this.#handlerMs === undefined) return 0;
    const inTime = (AHEAD_MS * this.concurrency) / Math.max(HANDLER_MS_MIN, this.#handlerMs);
    const inBytes = this.#bytes > 0 ? AHEAD_BYTES_MAX / this.#bytes : Infinity;
    // Below the number of handlers it saves no calls.
    const count = Math.floor(Math.min(inTime, inBytes, this.max));
    return count < this.concurrency ? 0 : count;
  }
}
