import { LeaseSignal } from "../lease-signal.js";
import { TimeLimitError } from "../timing.js";
import type { Leased } from "./message.js";
import type { Reported, Reports } from "./reports.js";

/** A message that this worker holds: leased ahead, being handled, or being reported. */
export class Held extends LeaseSignal {
  state: "buffered" | "active" | "reporting" = "buffered";
  /** When the lease last certainly began to last `leaseMs`. */
  extendedAt: number;
  isExtending = false;
  /** When the handler began, or last showed that it goes on. */
  progressedAt = 0;
  /** Ends the wait for the handler. */
  giveUp: ((error: Error) => void) | undefined;
  readonly since = performance.now();

  constructor(readonly leased: Leased) {
    super("another worker has the message, or it has left");
    this.extendedAt = this.since;
  }

  get message() {
    return this.leased.message;
  }

  get token() {
    return this.leased.token;
  }
}

/** Extends the leases of what a worker holds, all with one call, and gives up attempts that last too long. */
export class Keeper {
  readonly held = new Set<Held>();
  readonly #timer: NodeJS.Timeout;

  constructor(
    private readonly leaseMs: number,
    private readonly attemptTimeoutMs: number,
    private readonly reports: Reports,
    private readonly onLost: (held: Held, reported: Reported) => void,
    onTick: () => void,
  ) {
    this.#timer = setInterval(() => {
      this.#endOverdue();
      this.#extendDue();
      onTick();
    }, Math.max(10, Math.min(leaseMs, attemptTimeoutMs) / 9));
  }

  /** Extends a lease now, and saves a checkpoint with it. */
  async extend(held: Held, checkpoint?: string): Promise<Reported> {
    const at = performance.now();
    held.isExtending = true;
    const fields = `"lease_ms":${this.leaseMs}` + (checkpoint === undefined ? "" : `,"checkpoint":${checkpoint}`);
    const reported = await this.reports.report(held.token, fields);
    held.isExtending = false;
    if (reported.status === "ok") held.extendedAt = at;
    // `settled`: it was cancelled, for example. Nobody needs the work any more.
    const isLost = reported.status === "stale_lease" || reported.status === "settled" || reported.status === "attempt_timeout";
    if (isLost && !held.isLost && this.held.has(held)) {
      // Reseq has counted a failed attempt, so there is nothing to report any more.
      const overdue = reported.status === "attempt_timeout" ? new TimeLimitError(reported.detail ?? reported.status) : undefined;
      held.lose(overdue);
      this.onLost(held, reported);
      if (overdue) held.giveUp?.(overdue);
    }
    return reported;
  }

  #endOverdue(): void {
    const due = performance.now() - this.attemptTimeoutMs;
    for (const held of this.held) {
      if (held.state !== "active" || held.progressedAt > due) continue;
      const error = new TimeLimitError("the handler neither finished nor saved a checkpoint or told its progress", this.attemptTimeoutMs);
      held.end(error);
      held.giveUp?.(error);
    }
  }

  #extendDue(): void {
    const due = performance.now() - this.leaseMs / 3;
    for (const held of this.held) {
      if (!held.isExtending && !held.ended && held.extendedAt <= due) void this.extend(held);
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
