import type { components } from "../api.js";
import { ReseqError } from "../errors.js";
import { pause } from "../timing.js";
import type { Transport } from "../transport.js";

/** What became of a message. `unknown`: the log of the destination no longer has it, or the destination is gone. */
export interface Outcome {
  state: "delivered" | "dropped" | "dead_lettered" | "cancelled" | "unknown";
  destination: string;
  sequence: number;
  epoch: number;
  settledAt?: Date | undefined;
}

type Gone = components["schemas"]["GoneMessage"];
type LogPage = components["schemas"]["Items_LogEntry"];
type Position = { sequence: number; epoch: number };
type Found = Position & { state: string; settled_at?: string; damaged?: string };

interface Watcher extends Position {
  resolve(outcome: Outcome): void;
  reject(error: unknown): void;
}

const FIRST_MS = 10;
const MAX_MS = 1_000;
/** Up to this many messages are asked for one by one; more through the log. */
const SINGLE_MAX = 8;
const LOG_PAGES_MAX = 10;

/** Waits until messages have left. One loop for each destination asks for all its messages together. */
export class Outcomes {
  readonly #watched = new Map<string, Set<Watcher>>();

  constructor(private readonly transport: Transport) {}

  of(destination: string, position: Position, signal?: AbortSignal): Promise<Outcome> {
    // A repeat by its source: nobody knows any more which message it was.
    if (position.sequence === 0) return Promise.resolve({ state: "unknown", destination, sequence: 0, epoch: 0 });
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const watchers = this.#watched.get(destination);
      const onAbort = () => {
        this.#watched.get(destination)?.delete(watcher);
        reject(signal!.reason as Error);
      };
      const watcher: Watcher = {
        sequence: position.sequence,
        epoch: position.epoch,
        resolve: (outcome) => {
          signal?.removeEventListener("abort", onAbort);
          resolve(outcome);
        },
        reject,
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      if (watchers) return void watchers.add(watcher);
      this.#watched.set(destination, new Set([watcher]));
      void this.#watch(destination);
    });
  }

  async #watch(destination: string): Promise<void> {
    const watchers = this.#watched.get(destination)!;
    let waitMs = FIRST_MS;
    for (let round = 0; watchers.size > 0; round += 1) {
      const before = watchers.size;
      try {
        await this.#ask(destination, watchers, round);
      } catch (error) {
        if (!(error instanceof ReseqError && error.isTemporary)) {
          for (const watcher of watchers) watcher.reject(error);
          watchers.clear();
        }
      }
      waitMs = watchers.size < before ? FIRST_MS : Math.min(MAX_MS, waitMs * 1.5);
      if (watchers.size > 0) await pause(waitMs);
    }
    this.#watched.delete(destination);
  }

  async #ask(destination: string, watchers: Set<Watcher>, round: number): Promise<void> {
    if (watchers.size > SINGLE_MAX) await this.#askLog(destination, watchers);
    // The log forgets. Some of the rest are asked for in turn: each is pending, or forgotten.
    const rest = [...watchers];
    const first = rest.length > SINGLE_MAX ? (round * SINGLE_MAX) % rest.length : 0;
    const some = rest.slice(first, first + SINGLE_MAX);
    await Promise.all(some.map((watcher) => this.#askOne(destination, watchers, watcher)));
  }

  async #askOne(destination: string, watchers: Set<Watcher>, watcher: Watcher): Promise<void> {
    const path = `/v1/destinations/${encodeURIComponent(destination)}/messages/${watcher.sequence}`;
    try {
      settle(destination, watchers, watcher, await this.transport.json<Gone>({ method: "GET", path }));
    } catch (error) {
      if (!(error instanceof ReseqError) || error.status !== 404) throw error;
      settle(destination, watchers, watcher, undefined);
    }
  }

  async #askLog(destination: string, watchers: Set<Watcher>): Promise<void> {
    const bySequence = new Map<number, Watcher[]>();
    let [from, to] = [Infinity, 0];
    for (const watcher of watchers) {
      bySequence.set(watcher.sequence, [...(bySequence.get(watcher.sequence) ?? []), watcher]);
      from = Math.min(from, watcher.sequence);
      to = Math.max(to, watcher.sequence);
    }
    let cursor: string | null | undefined;
    for (let page = 0; page < LOG_PAGES_MAX && cursor !== null; page += 1) {
      const query = new URLSearchParams({ limit: "1000", from_sequence: String(from), to_sequence: String(to) });
      if (cursor) query.set("cursor", cursor);
      const path = `/v1/destinations/${encodeURIComponent(destination)}/log?${query}`;
      const list: LogPage = await this.transport.json<LogPage>({ method: "GET", path });
      for (const entry of list.items as Found[]) {
        if (entry.damaged) continue;
        for (const watcher of bySequence.get(entry.sequence) ?? []) settle(destination, watchers, watcher, entry);
      }
      cursor = list.next_cursor ?? null;
    }
  }
}

const FINAL = new Set(["delivered", "dropped", "dead_lettered", "cancelled"]);

/** Resolves a watcher if it is known what became of its message. */
function settle(destination: string, watchers: Set<Watcher>, watcher: Watcher, found: Found | undefined): void {
  const { sequence, epoch } = watcher;
  // A destination that was created again has other messages with the same sequences.
  const isIt = found?.epoch === epoch;
  if (isIt && !FINAL.has(found.state)) return;
  watchers.delete(watcher);
  if (!isIt) return watcher.resolve({ state: "unknown", destination, sequence, epoch });
  const settledAt = found.settled_at === undefined ? undefined : new Date(found.settled_at);
  watcher.resolve({ state: found.state as Outcome["state"], destination, sequence, epoch, settledAt });
}
