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

/** A signal that is aborted when one of these is; undefined ones are left out. */
export function anyOf(...signals: (AbortSignal | undefined)[]): AbortSignal | undefined {
  const some = signals.filter((signal): signal is AbortSignal => signal !== undefined);
  return some.length > 1 ? AbortSignal.any(some) : some[0];
}
