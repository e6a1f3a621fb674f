import { ReseqError } from "../errors.js";
import { pause } from "../timing.js";
import type { Transport } from "../transport.js";
import type { components } from "../api.js";

type Result = components["schemas"]["LeaseResult"];

/** What became of a report. `refused`: Reseq does not take this item, however often it is sent. */
export type Reported = { status: Result["status"]; exhausted?: string | null; detail?: string | null } | { status: "refused"; error: ReseqError };

interface Item {
  json: string;
  resolve(reported: Reported): void;
  isAlone: boolean;
}

const ITEMS_MAX = 1000;
const BYTES_MAX = 4 << 20;
/** While this many reports wait, a second call is made before the first is answered. */
const SECOND_CALL_MIN = 250;

/**
 * Reports of one kind, such as `/v1/leases/complete`. One call at a time, two if many wait; what is reported meanwhile
 * goes with the next. Repeats a call until Reseq has answered, so the outcome of each report becomes known. Repeating is
 * safe: the second time, Reseq answers `settled` or `stale_lease`.
 */
export class Reports {
  #waiting: Item[] = [];
  #sending = 0;
  bytes = 0;

  constructor(
    private readonly transport: Transport,
    private readonly path: string,
    private readonly onTrouble: (error: unknown) => void,
    private readonly end: AbortSignal,
    private readonly timeoutMs: number,
  ) {}

  /** `fields` are the fields of the item besides its token, as JSON without braces. */
  report(token: string, fields = ""): Promise<Reported> {
    return new Promise((resolve) => {
      const json = `{"token":${JSON.stringify(token)}${fields && ","}${fields}}`;
      this.bytes += json.length;
      this.#waiting.push({ json, resolve, isAlone: false });
      if (this.#sending === 0 || (this.#sending === 1 && this.#waiting.length >= SECOND_CALL_MIN)) {
        this.#sending += 1;
        // What ends in the same tick is reported together.
        setImmediate(() => void this.#send());
      }
    });
  }

  async #send(): Promise<void> {
    const backoff = this.transport.newBackoff();
    while (this.#waiting.length > 0) {
      const items = this.#next();
      try {
        const body = `{"items":[${items.map((item) => item.json).join(",")}]}`;
        const call = { method: "POST", path: this.path, body, signal: this.end, timeoutMs: this.timeoutMs };
        const { results } = await this.transport.json<{ results: Result[] }>(call);
        if (results?.length !== items.length) throw new ReseqError({ code: "invalid_answer", detail: "not one result for each item" });
        items.forEach((item, at) => this.#settle(item, results[at]!));
        backoff.reset();
      } catch (error) {
        if (this.end.aborted) break;
        if (this.#divide(items, error)) continue;
        this.onTrouble(error);
        this.#waiting = items.concat(this.#waiting);
        const retryAfterMs = error instanceof ReseqError ? error.retryAfterMs : 0;
        await pause(backoff.nextMs(retryAfterMs), this.end).catch(() => {});
        if (this.end.aborted) break;
      }
    }
    this.#sending -= 1;
  }

  #next(): Item[] {
    let bytes = 0;
    let count = 0;
    for (; count < Math.min(this.#waiting.length, ITEMS_MAX); count += 1) {
      const item = this.#waiting[count]!;
      bytes += item.json.length;
      if (count > 0 && (bytes > BYTES_MAX || item.isAlone || this.#waiting[0]!.isAlone)) break;
    }
    return this.#waiting.splice(0, count);
  }

  /** One invalid item makes Reseq refuse the whole call: sends each alone. True if the items are dealt with. */
  #divide(items: Item[], error: unknown): boolean {
    const isRefused = error instanceof ReseqError && error.status !== undefined && error.status >= 400 && error.status < 500 && !error.isTemporary;
    // A wrong token of the client or a wrong URL is not the fault of an item.
    if (!isRefused || [401, 403, 404, 405].includes(error.status!)) return false;
    if (items.length === 1) {
      this.#settle(items[0]!, { status: "refused", error });
      return true;
    }
    for (const item of items) item.isAlone = true;
    this.#waiting = items.concat(this.#waiting);
    return true;
  }

  #settle(item: Item, reported: Reported): void {
    this.bytes -= item.json.length;
    item.resolve(reported);
  }
}
