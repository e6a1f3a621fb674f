// Failures by their error: dead letters to redrive, and lanes to retry, all of a group at once.
import { useState } from "preact/hooks";
import { api, ask, may, type DeadLetter, type Failure, type Operation, type Pending, type Session } from "./api.ts";
import { BulkDialog } from "./bulk.tsx";
import { count, failureText, laneName, time } from "./format.ts";
import type { Filters } from "./list.tsx";
import { VerbDialog } from "./message_dialog.tsx";
import { tab } from "./router.ts";
import { nameOf, ShardSign, type Item } from "./shards.tsx";
import { Button, ErrorNotice, Panel, Table, useLoad } from "./ui.tsx";

/** Messages in one page, and the most that are grouped. The API takes as many sequences in one call. */
const PAGE = 1000;
const GROUPED_MAX = 10_000;
/** Heads that are retried at the same time. */
const AT_ONCE = 6;
/** Longer errors are folded. */
const FOLDED = 90;

/** An error: in one line if it is short; else folded, and whole on request. */
export function ErrorText({ text }: { text: string | null | undefined }) {
  if (!text) return null;
  if (text.length <= FOLDED && !text.includes("\n")) return <>{text}</>;
  return <details class="error-text"><summary>{text.slice(0, FOLDED)} …</summary><pre tabIndex={0}>{text}</pre></details>;
}

interface Failed extends Item {
  key: string | null;
  error: Failure | null;
  /** What is told if there is no error. */
  reason: string;
  at: string | null;
}
interface Group {
  name: string;
  text: string;
  stage: string;
  items: Failed[];
  first: string | null;
  last: string | null;
}

/** An error without what differs from message to message: numbers and ids. */
const kind = (text: string) => text.replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\d+/gi, "…");

function grouped(all: Failed[]): Group[] {
  const groups = new Map<string, Group>();
  for (const one of all) {
    const { error } = one;
    const text = failureText(error) ?? one.reason;
    const name = `${error?.stage} ${error?.status} ${kind(text)}`;
    const group = groups.get(name) ?? { name, text, stage: error?.stage ?? "", items: [], first: one.at, last: one.at };
    group.items.push(one);
    if (one.at && (!group.first || one.at < group.first)) group.first = one.at;
    if (one.at && (!group.last || one.at > group.last)) group.last = one.at;
    groups.set(name, group);
  }
  return [...groups.values()].sort((a, b) => b.items.length - a.items.length);
}

/** All pages of a list, up to a maximum. `isCut`: there are more. */
async function pages<T>(max: number, read: (cursor: string | undefined) => Promise<{ items: T[]; next_cursor?: string | null }>) {
  const items: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    items.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor && items.length < max);
  return { items, isCut: cursor !== undefined };
}

function Groups({ title, unit, groups, destination, isCut, isBusy, error, onMore, action }: {
  title: string; unit: string; groups: Group[]; destination: string; isCut: boolean; isBusy: boolean; error: unknown; onMore: () => void; action?: (group: Group) => preact.ComponentChildren;
}) {
  if (groups.length === 0) return <ErrorNotice error={error} />;
  return (
    <Panel title={title} tools={isCut ? <Button disabled={isBusy} onClick={onMore}>{isBusy ? "Reading …" : `Only the first ${count(PAGE)} were read: read more`}</Button> : null}>
      <ErrorNotice error={error} />
      <Table label={title}>
        <thead><tr><th>Error</th><th class="right">{unit}</th><th>Stage</th><th>First</th><th>Last</th><th>Example</th>{action && <th>Actions</th>}</tr></thead>
        <tbody>
          {groups.map((group) => {
            const [one] = group.items;
            return (
              <tr key={group.name}>
                <td class="error-cell"><ErrorText text={group.text} /></td>
                <td class="right number">{count(group.items.length)}</td>
                <td>{group.stage}</td>
                <td class="number nowrap">{time(group.first)}</td>
                <td class="number nowrap">{time(group.last)}</td>
                <td class="cut"><a class="number" href={tab(one!.shard ?? destination, "messages", {}, one!.sequence)}>{one!.sequence}</a><ShardSign of={one!} />{one!.key != null && <>, <a href={tab(one!.shard ?? destination, "lane", { key: one!.key })}>{laneName(one!.key)}</a></>}</td>
                {action && <td>{action(group)}</td>}
              </tr>
            );
          })}
        </tbody>
      </Table>
    </Panel>
  );
}

/** Dead letters by their last error. They are read again when `turn` changes. */
export function LettersByError({ session, destination, filters, turn, onDone }: {
  session: Session; destination: string; filters: Filters; turn: unknown; onDone: () => void;
}) {
  const [max, setMax] = useState(PAGE);
  const [open, setOpen] = useState<Group | null>(null);
  const { value, error, isBusy } = useLoad(() => pages<DeadLetter & Item>(max, (cursor) =>
    ask(api.GET("/v1/destinations/{destination}/dead-letters", { params: { path: { destination }, query: { ...filters, limit: PAGE, cursor } as never } })) as never), [destination, filters, turn, max]);
  const all = value?.items.map((one) => ({ sequence: one.sequence, shard: one.shard, key: one.key ?? null, error: one.last_error ?? null, reason: one.damaged ?? one.reason, at: one.dead_lettered_at }));
  return (
    <>
      <Groups title="By error" unit="Dead letters" groups={grouped(all ?? [])} destination={destination} isCut={!!value?.isCut && max < GROUPED_MAX} isBusy={isBusy} error={error} onMore={() => setMax(GROUPED_MAX)}
        action={may(session, "operate") ? (group) => <Button onClick={() => setOpen(group)}>Redrive these {count(group.items.length)}</Button> : undefined} />
      {open && <VerbDialog destination={destination} verb="redrive" which={open.items.slice(0, GROUPED_MAX)}
        onClose={(isDone) => { setOpen(null); if (isDone) onDone(); }} />}
    </>
  );
}

/** The first pending message of each lane, of those that come first. */
function headsOf(all: (Pending & Item)[], ordering: string) {
  const seen = new Set<string>();
  return all.filter((one) => {
    const lane = ordering === "none" ? nameOf(one) : ordering === "key" ? one.key ?? "" : "";
    return seen.size < seen.add(lane).size;
  });
}

/** Lanes whose heads have failed, by error. */
export function LanesByError({ session, destination, ordering, turn, onDone }: {
  session: Session; destination: string; ordering: string; turn: unknown; onDone: () => void;
}) {
  const [max, setMax] = useState(PAGE);
  const [open, setOpen] = useState<Group | null>(null);
  const { value, error, isBusy } = useLoad(() => pages<Pending & Item>(max, (cursor) =>
    ask(api.GET("/v1/destinations/{destination}/messages", { params: { path: { destination }, query: { limit: PAGE, cursor } } })) as never), [destination, turn, max]);
  const failed = headsOf(value?.items ?? [], ordering).filter((one) => one.state === "halted" || (one.attempts > 0 && one.last_error));
  const all = failed.map((one) => ({ sequence: one.sequence, shard: one.shard, key: ordering === "key" ? one.key ?? "" : null, error: one.last_error ?? null, reason: one.damaged ?? one.state, at: one.last_error?.occurred_at ?? null }));
  const retry = async (group: Group, isDryRun: boolean) => {
    const told = { id: "", kind: "retry_heads", destination, state: "succeeded", matched: group.items.length, affected: 0, failed: 0 };
    const queue = isDryRun ? [] : [...group.items];
    const next = async () => {
      for (let one = queue.shift(); one; one = queue.shift()) {
        const body = { sequence: one.sequence, ...(one.key === null ? {} : { key: one.key }) };
        await ask(api.POST("/v1/destinations/{destination}/retry-head", { params: { path: { destination: one.shard ?? destination } }, body })).then(() => told.affected++, () => told.failed++);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next));
    return told as unknown as Operation;
  };
  return (
    <>
      <Groups title="Failing lanes by error" unit="Lanes" groups={grouped(all)} destination={destination} isCut={!!value?.isCut && max < GROUPED_MAX} isBusy={isBusy} error={error} onMore={() => setMax(GROUPED_MAX)}
        action={may(session, "operate") ? (group) => <Button onClick={() => setOpen(group)}>Retry these {count(group.items.length)}</Button> : undefined} />
      {open && <BulkDialog title="Retry the heads with this error" verb="Retry" explain="Each head is tried again now. One that has left, or is being tried, cannot be changed."
        run={(isDryRun) => retry(open, isDryRun)} onClose={(isDone) => { setOpen(null); if (isDone) onDone(); }} />}
    </>
  );
}
