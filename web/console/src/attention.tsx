// Which destinations need attention, and why: the same answer as that of `reseq status --check` and the doctor.
import { useRef, useState } from "preact/hooks";
import { api, ask, type Schema } from "./api.ts";
import { ErrorText } from "./failures.tsx";
import { count, duration, failureText, laneName, many } from "./format.ts";
import { usePoll } from "./live.ts";
import { href, tab } from "./router.ts";
import { nameOf, ShardSign } from "./shards.tsx";
import { Button, Empty, ErrorNotice, Panel, Table } from "./ui.tsx";

type Head = Schema["Head"];

export interface Attention {
  cause: string;
  count: number;
  /** In ms since 1970; null if nobody knows. */
  since?: number | null;
  error?: string | null;
}

/** The numbers of a destination that needs attention. */
export interface Needy {
  name: string;
  attention?: Attention[];
  /** Why Redis did not answer. */
  not_read?: string;
  head?: Head | null;
  heads?: Head[];
}

/** How often to ask, and how many destinations are shown at first and at most. */
const EVERY_MS = 3000;
const SHOWN = 20;
const SHOWN_MAX = 1000;
/** Links to the lanes of one destination, and the most that the service names. */
const LANES_MAX = 3;
const HEADS_MAX = 10;

/** What a count is about. That of failing messages can be an estimate. */
const counted = (one: Attention) => `${one.cause === "failing" ? "about " : ""}${many(one.count, one.cause === "damaged" ? "record" : "message")}`;

/** Causes in which nobody has to act at once. */
const MILD = new Set(["retrying", "at_limit", "paused", "slow"]);
export const isMild = (cause: string) => MILD.has(cause);

/** Why a destination needs attention. Its server may be silent; then nobody knows more. */
export const causesOf = (one: Needy): Attention[] =>
  one.not_read ? [{ cause: "not_read", count: 0, since: null, error: one.not_read }] : one.attention ?? [];

/** The destinations that need attention, those with the most pending messages first, and how many there are. */
export const needy = (limit: number, heads: boolean) =>
  ask(api.GET("/v1/stats", { params: { query: { attention: true, sort: "stuck", limit, heads } as never } })) as Promise<unknown> as
    Promise<{ items: Needy[]; totals?: { needs_attention: number } }>;

export function Cause({ one }: { one: Attention }) {
  const text = one.cause.replaceAll("_", " ").replace("not read", "not known");
  return <span class={`chip ${isMild(one.cause) ? "is-mild" : "is-bad"}`} title={one.error ?? undefined}>{text}{one.count > 1 ? `: ${counted(one)}` : ""}</span>;
}

/** The heads that a cause is about; else the oldest. */
export function headsOf({ head, heads }: Needy, cause: string): Head[] {
  const all = heads?.length ? heads : head ? [head] : [];
  const found = all.filter((one) => (cause === "halted" ? one.blocked_by === "operator" : cause === "failing" && one.attempts > 0 && one.blocked_by !== "operator"));
  return found.length ? found : all.slice(0, 1);
}

/** The error of a cause. The service tells it in short, a head with what the receiver said. */
export const errorOf = (item: Needy, { cause, error }: Attention) =>
  error && (headsOf(item, cause).map((head) => failureText(head.last_error)).find((text) => text?.startsWith(error)) ?? error);

/** A panel with what is wrong. Each row leads to its lane. */
export function NeedsAttention({ nowMs, isStale }: { nowMs: number; isStale: boolean }) {
  const [limit, setLimit] = useState(SHOWN);
  const { value: now, error } = usePoll(() => needy(limit, true), EVERY_MS, [limit]);
  // Without Redis the answer is that nothing is known of any destination. What was known says more.
  const known = useRef(now);
  if (now && (!now.items.length || now.items.some((one) => !one.not_read))) known.current = now;
  const value = isStale ? known.current ?? now : now;
  const items = value?.items ?? [];
  const all = Math.max(value?.totals?.needs_attention ?? 0, items.length);
  const rows = items.flatMap((item) => causesOf(item).map((one) => ({ item, one })));
  return (
    <Panel title="Needs attention" class={value ? (items.length ? "is-bad" : "is-good") : ""}
      tools={all > 0 && <span class="muted">{count(all)} {all === 1 ? "destination" : "destinations"}</span>}>
      {/* The page itself tells why nothing is read. */}
      {!isStale && <ErrorNotice error={error} />}
      {!value ? !error && <Empty>…</Empty> : rows.length === 0 ? <Empty>Nothing needs attention.</Empty> : (
        <Table label="Needs attention">
          <thead><tr><th>Destination</th><th>Why</th><th>Lane</th><th class="right">For</th><th>Error</th></tr></thead>
          <tbody>
            {rows.map(({ item, one }) => {
              const heads = headsOf(item, one.cause);
              return (
                <tr key={`${item.name}/${one.cause}`}>
                  <td><a href={href(["destinations", item.name])}>{item.name}</a></td>
                  <td><Cause one={one} /></td>
                  <td>
                    {heads.slice(0, LANES_MAX).map((head, at) => (
                      <>{at > 0 && ", "}<a key={nameOf(head)} href={tab(head.shard ?? item.name, "lane", { key: head.key ?? undefined })}>{laneName(head.key)}</a><ShardSign of={head} /></>
                    ))}
                    {heads.length === 0 && <a href={tab(item.name, "lane")}>Show</a>}
                    {heads.length > LANES_MAX && <span class="muted"> and {(item.heads?.length ?? 0) < HEADS_MAX ? count(heads.length - LANES_MAX) : ""} more</span>}
                  </td>
                  <td class="right number">{one.since == null ? "" : duration(Math.max(0, nowMs - one.since))}</td>
                  <td class="error-cell"><ErrorText text={errorOf(item, one) ?? failureText(heads[0]?.last_error)} /></td>
                </tr>
              );
            })}
          </tbody>
        </Table>
      )}
      {all > items.length && items.length > 0 && limit < SHOWN_MAX && <div class="pager"><Button onClick={() => setLimit(Math.min(SHOWN_MAX, limit * 10))}>Show more</Button></div>}
    </Panel>
  );
}
