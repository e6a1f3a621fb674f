// One destination: what is wrong with it, and its tabs.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, ask, may, type Destination, type Schema, type Session } from "../api.ts";
import { Cause, type Attention } from "../attention.tsx";
import { count } from "../format.ts";
import { usePoll } from "../live.ts";
import { go, href, tab, type Route } from "../router.ts";
import { SendDialog } from "../send.tsx";
import { isShard, shardsOf, wholeOf, type Item } from "../shards.tsx";
import { Button, ErrorNotice, Head, Notice, useLoad } from "../ui.tsx";
import { DeadLettersTab } from "./dead_letters.tsx";
import { DefinitionTab } from "./definition.tsx";
import { OverviewTab } from "./destination_overview.tsx";
import { pausedText } from "./destinations.tsx";
import { HistoryTab } from "./history.tsx";
import { LaneTab } from "./lane.tsx";
import { MessagesTab } from "./messages.tsx";
import { OperationsTab } from "./operations.tsx";

export type Numbers = Schema["Stats"] & { attention?: Attention[] };

export interface TabProps {
  session: Session;
  destination: string;
  query: URLSearchParams;
  definition: Destination;
  /** How many shards the page is about. */
  shards: number;
  numbers: Numbers | null;
  /** The message that the address names, and the shard that counts its sequence; the address of another; and the way back. */
  open: { sequence: number | null; shard: string; of: (one: Item) => string; close: () => void };
  /** Reads the definition again. */
  onChanged: () => void;
}

/** How often to read the numbers. */
const EVERY_MS = 3000;

const TABS: Record<string, [string, (props: TabProps) => ComponentChildren]> = {
  overview: ["Overview", OverviewTab], lane: ["Lane", LaneTab], messages: ["Messages", MessagesTab], "dead-letters": ["Dead letters", DeadLettersTab],
  history: ["History", HistoryTab], operations: ["Operations", OperationsTab], definition: ["Definition", DefinitionTab],
};
export const tabName = (name = "overview") => TABS[name]?.[0] ?? "Overview";

export function DestinationPage({ session, destination, route }: { session: Session; destination: string; route: Route }) {
  const path = { params: { path: { destination } } };
  const definition = useLoad(() => ask(api.GET("/v1/destinations/{destination}", path)), [destination]);
  const stats = usePoll(() => ask(api.GET("/v1/destinations/{destination}/stats", path)), EVERY_MS, [destination]);
  const [isSend, setSend] = useState(false);
  const { query } = route;
  const wanted = route.parts[2] ?? "overview";
  const name = Object.hasOwn(TABS, wanted) ? wanted : "overview";
  const Tab = TABS[name]![1];
  // The service leaves out that there is one shard.
  const found = definition.value && ({ shards: 1, ...definition.value } as Destination);
  const numbers = stats.value as Numbers | null;
  const shards = found ? shardsOf(destination, found) : 1;
  const attention = numbers?.attention ?? [];
  const kept = Object.fromEntries(query);
  const sequence = /^\d+$/.test(route.parts[3] ?? "") ? Number(route.parts[3]) : null;
  const open = { sequence, shard: route.parts[4] ?? destination, of: (one: Item) => tab(destination, name, kept, one.sequence, ...(one.shard ? [one.shard] : [])), close: () => go(tab(destination, name, kept)) };
  return (
    <>
      <Head title={destination} sub={found ? <>
        {isShard(destination) && <>a shard of <a href={href(["destinations", wholeOf(destination)])}>{wholeOf(destination)}</a> · </>}
        {found.url ?? found.delivery?.kind} · version {found.version} · {shards > 1 ? `${count(shards)} shards` : `partition ${found.partition}`}
      </> : definition.error ? "" : "…"}>
        {attention.map((one) => <Cause key={one.cause} one={one} />)}
        {may(session, "ingest") && !isShard(destination) && <Button onClick={() => setSend(true)}>Send a message</Button>}
      </Head>
      <nav class="tabs" aria-label={`Pages of ${destination}`}>
        <ul>
          {Object.entries(TABS).map(([each, [label]]) => (
            <li key={each}>
              <a href={tab(destination, each, each === "lane" ? { key: query.get("key") ?? undefined } : {})} aria-current={each === name ? "page" : undefined}>
                {label}{each === "dead-letters" && numbers?.dead_letters ? <> <span class="badge number">{numbers.dead_letters}</span></> : null}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      {/* The tabs that are live tell it themselves. */}
      <ErrorNotice error={definition.error ?? (["overview", "lane"].includes(name) ? null : stats.error)} />
      {found && pausedText(found.paused) && <Notice kind="info">{pausedText(found.paused)}</Notice>}
      {found && !definition.error && (
        <Tab key={`${name}?${query}`} session={session} destination={destination} query={query} definition={found} shards={shards} numbers={numbers} open={open} onChanged={definition.again} />
      )}
      {isSend && <SendDialog destination={destination} onClose={() => setSend(false)} />}
    </>
  );
}
