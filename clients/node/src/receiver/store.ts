/** The last message of a lane that a receiver has handled. */
export interface LaneState {
  epoch: number;
  sequence: number;
  /** True if the lane had no message before this one in its epoch. */
  isFirst: boolean;
}

/** What a store does for one request, while it holds the lane. */
export interface LaneAccess<Tx> {
  last: LaneState | undefined;
  /** The transaction in which the position is stored; undefined if the store has none. */
  tx: Tx;
  /** Stores the position. With a transaction, it takes effect together with what the handler did in it. */
  record(state: LaneState): Promise<void>;
}

/**
 * Where a guard keeps the last position of each lane.
 *
 * - `memoryStore`: forgets everything when the process ends. Skips nothing; repeats what comes again after a restart.
 * - `redisStore`: stores after the handler. Skips nothing; repeats if the process dies in between.
 * - `sqlStore` and those built on it: the position and the effects of the handler are one transaction, so each message
 *   is applied exactly once.
 */
export interface OrderStore<Tx = unknown> {
  /** Runs `work` while no other request of this lane does. If it throws, nothing is stored. */
  within<T>(lane: string, work: (access: LaneAccess<Tx>) => Promise<T>): Promise<T>;
  /** Lanes whose last message was recorded before this time, up to `limit`. */
  idleSince(timeMs: number, limit: number): Promise<{ lane: string; state: LaneState }[]>;
  /** Removes a lane if its last message is still this one. */
  forget(lane: string, state: LaneState): Promise<void>;
}

/** Above 0 if `one` comes after `other`. */
export function comparePositions(one: { epoch: number; sequence: number }, other: { epoch: number; sequence: number }): number {
  return one.epoch - other.epoch || one.sequence - other.sequence;
}

/** Runs this many pieces of work at once, in the order in which they came. */
export class Slots {
  readonly #waiting: (() => void)[] = [];

  constructor(private free: number) {}

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.free > 0) this.free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.free += 1;
    }
  }
}

/** Runs one piece of work for each name at a time, in the order in which they came. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name);
    const mine = before ? before.then(work, work) : work();
    const tail = mine.catch(() => {});
    this.#last.set(name, tail);
    void tail.then(() => {
      if (this.#last.get(name) === tail) this.#last.delete(name);
    });
    return mine;
  }
}
