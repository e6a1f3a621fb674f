// Destinations with several shards. Each shard counts sequences of its own, so what names a sequence names the shard, too.
import { api, ask, type Destination } from "./api.ts";

/** An item of a list. In a list of several shards it has its shard. */
export interface Item {
  sequence: number;
  shard?: string | null;
}

/** True for the name of one shard, such as orders~2. */
export const isShard = (name: string) => name.includes("~");
/** The name of the destination that a shard belongs to. */
export const wholeOf = (name: string) => name.split("~")[0]!;
/** How many shards this name means. */
export const shardsOf = (name: string, definition: Destination) => (isShard(name) ? 1 : definition.shards ?? 1);

/** What tells an item from the others of its list. */
export const nameOf = (item: Item) => `${item.shard ?? ""}/${item.sequence}`;

/** The items by the name that requests for them need: that of their shard, if they have one. */
export function byShard<T extends Item>(destination: string, items: T[]): [string, T[]][] {
  const found = new Map<string, T[]>();
  for (const item of items) {
    const name = item.shard ?? destination;
    const some = found.get(name);
    if (some) some.push(item);
    else found.set(name, [item]);
  }
  return [...found];
}

/** The lane of this key, or the one that has waited longest, and its shard. */
export async function laneOf(destination: string, key: string | undefined) {
  const why = await ask(api.GET("/v1/destinations/{destination}/why", { params: { path: { destination }, query: { key } } }));
  // The first shard has the name of the destination.
  return { shard: isShard(why.destination) ? why.destination : `${why.destination}~0`, key: key ?? why.key ?? undefined };
}

/** The shard of an item, beside its sequence or its name. */
export const ShardSign = ({ of }: { of: { shard?: string | null } }) => (of.shard ? <span class="muted nowrap"> {of.shard}</span> : null);
