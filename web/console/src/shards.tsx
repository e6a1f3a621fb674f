// Destinations with several shards. Each shard counts sequences of its own, so what names a sequence names the shard, too.
import { api, ask, type Destination } from "./api.ts";

/** An item of a list. In a list of several shards it has its shard. */
export interface Item {
  sequence: number;
  shard?: string | null;
}
interface List<T> {
  items: T[];
  next_cursor?: string | null;
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

/** A page of a list. With an ordering key it is that of one shard, whose items do not say which. */
export async function listOf<T>(destination: string, definition: Destination, key: string | undefined, read: (destination: string) => Promise<List<T>>): Promise<List<T & { shard?: string }>> {
  if (key === undefined || definition.ordering !== "key" || shardsOf(destination, definition) === 1) return read(destination) as never;
  const { shard } = await laneOf(destination, key);
  const page = await read(shard);
  return { ...page, items: page.items.map((one) => ({ ...one, shard })) };
}

/** The shard that has the message with this id; the destination itself, unless it has several. */
export async function shardWithId(destination: string, definition: Destination, id: string): Promise<string> {
  const shards = shardsOf(destination, definition);
  if (shards === 1) return destination;
  const names = Array.from({ length: shards }, (_, number) => `${destination}~${number}`);
  return Promise.any(names.map(async (name) => {
    await ask(api.GET("/v1/destinations/{destination}/messages/by-id/{id}", { params: { path: { destination: name, id } } }));
    return name;
  }));
}

/** The shard of an item, beside its sequence or its name. */
export const ShardSign = ({ of }: { of: { shard?: string | null } }) => (of.shard ? <span class="muted nowrap"> {of.shard}</span> : null);
