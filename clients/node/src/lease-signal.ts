/** A lease that may be lost, and the signal by which a handler learns of it. */
export class LeaseSignal {
  isLost = false;
  #abort: AbortController | undefined;

  /** `reason` is the text of the error with which the signal is aborted. */
  constructor(private readonly reason: string) {}

  /** Made when it is first asked for: most handlers do not. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isLost) this.#abort.abort(this.#lost());
    return this.#abort.signal;
  }

  lose(): void {
    this.isLost = true;
    this.#abort?.abort(this.#lost());
  }

  #lost(): Error {
    return new Error(`the lease is lost: ${this.reason}`);
  }
}
