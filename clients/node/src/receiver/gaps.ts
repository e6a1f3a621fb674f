import type { Reseq } from "../client.js";
import type { Delivery } from "./message.js";
import type { LaneState } from "./store.js";

/** Messages of a lane that did not come. */
export interface Gap {
  destination: string;
  key: string | null;
  /** The last message before the gap, and the first one after it. */
  after: { epoch: number; sequence: number };
  before: { epoch: number; sequence: number };
  /**
   * What became of them: `dropped`, `dead_lettered` or `cancelled`; `unknown` if nobody knows any more. Without a
   * client (`reseq`) the guard knows only the sequence of the last one.
   */
  missing: { sequence: number; state: string }[];
}

/** True if a message names another one before it than the last that the receiver has. */
export function isBehindGap(delivery: Delivery, last: LaneState | undefined): boolean {
  const { previous } = delivery;
  return last !== undefined && previous !== null && previous !== 0 && previous !== last.sequence;
}

interface LogEntry {
  sequence: number;
  key?: string | null;
  state: string;
}

/** Asks what became of the messages between two. Undefined if all of them came after all. */
export async function gapBetween(last: LaneState, delivery: Delivery, hasOneLane: boolean, reseq?: Reseq<any>): Promise<Gap | undefined> {
  const { destination, key, epoch, sequence } = delivery;
  const previous = delivery.previous!;
  const gap: Gap = { destination, key, after: { epoch: last.epoch, sequence: last.sequence }, before: { epoch, sequence }, missing: [] };
  if (!reseq) return { ...gap, missing: [{ sequence: previous, state: "unknown" }] };
  const from_sequence = last.sequence < previous ? last.sequence + 1 : 1;
  const filters = { from_sequence, to_sequence: previous, ...(hasOneLane || key === null ? {} : { key }) };
  const found = new Map<number, string>();
  for await (const entry of reseq.list<LogEntry>(`/v1/destinations/${destination}/log`, filters)) {
    if (hasOneLane || (entry.key ?? null) === key) found.set(entry.sequence, entry.state);
  }
  if (!found.has(previous)) found.set(previous, (await reseq.message(destination, previous))?.state ?? "unknown");
  for (const [missing, state] of [...found].sort(([one], [other]) => one - other)) {
    if (state !== "delivered") gap.missing.push({ sequence: missing, state });
  }
  return gap.missing.length > 0 ? gap : undefined;
}
