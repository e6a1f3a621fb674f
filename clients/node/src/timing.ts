/** Resolves after this time; rejects with the reason of `signal` as soon as it is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, Math.min(ms, 2 ** 31 - 1));
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** Random waits between attempts that grow (full jitter), at least as long as the server asks for. */
export class Backoff {
  #failures = 0;

  constructor(
    private readonly firstMs = 50,
    private readonly maxMs = 2000,
  ) {}

  /** How long to wait after one more failure. */
  nextMs(retryAfterMs = 0): number {
    const ceiling = Math.min(this.maxMs, this.firstMs * 2 ** Math.min(this.#failures, 20));
    this.#failures += 1;
    return Math.max(retryAfterMs, Math.random() * ceiling);
  }

  reset(): void {
    this.#failures = 0;
  }
}

/** An attempt was given up, because it has lasted for longer than its limit. */
export class TimeLimitError extends Error {
  constructor(what: string, ms?: number) {
    super(ms === undefined ? what : `${what} within ${ms} ms (attemptTimeoutMs)`);
    this.name = "TimeoutError";
  }
}

/** The outcome of `work`, or the reason of `signal` as soon as it is aborted. */
export function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    void work.then(resolve, reject).then(() => signal.removeEventListener("abort", onAbort));
  });
}
