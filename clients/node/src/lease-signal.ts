/** A lease that may be lost, and the signal by which a handler learns that its attempt is over. */
export class LeaseSignal {
  isLost = false;
  /** Why the attempt is over: the lease is lost, or the attempt has lasted too long. */
  ended: Error | undefined;
  #abort: AbortController | undefined;

  /** `reason` is the text of the error with which the signal is aborted. */
  constructor(private readonly reason: string) {}

  /** Made when it is first asked for: most handlers do not. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.ended) this.#abort.abort(this.ended);
    return this.#abort.signal;
  }

  lose(error = new Error(`the lease is lost: ${this.reason}`)): void {
    this.isLost = true;
    this.end(error);
  }

  end(error: Error): void {
    this.ended ??= error;
    this.#abort?.abort(this.ended);
  }
}
