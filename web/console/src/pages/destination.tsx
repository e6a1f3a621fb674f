// One destination: what is wrong with it, and its tabs.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, ask, may, type Destination, type Schema, type Session } from "../api.ts";
import { Cause, type Attention } from "../attention.tsx";
import { usePoll } from "../live.ts";
import { go, tab, type Route } from "../router.ts";
import { SendDialog } from "../send.tsx";
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
  definition: Destination | null;
  numbers: Numbers | null;
  /** The message that the address names; the address of another; and the way back. */
  open: { sequence: number | null; of: (sequence: number) => string; close: () => void };
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
  const found = definition.value as Destination | null;
  const numbers = stats.value as Numbers | null;
  const attention = numbers?.attention ?? [];
  const kept = Object.fromEntries(query);
  const sequence = /^\d+$/.test(route.parts[3] ?? "") ? Number(route.parts[3]) : null;
  const open = { sequence, of: (one: number) => tab(destination, name, kept, one), close: () => go(tab(destination, name, kept)) };
  return (
    <>
      <Head title={destination} sub={found ? `${found.url ?? found.delivery?.kind} · version ${found.version} · partition ${found.partition}` : definition.error ? "" : "…"}>
        {attention.map((one) => <Cause key={one.cause} one={one} />)}
        {may(session, "ingest") && <Button onClick={() => setSend(true)}>Send a message</Button>}
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
      {!definition.error && (
        <Tab key={`${name}?${query}`} session={session} destination={destination} query={query} definition={found} numbers={numbers} open={open} onChanged={definition.again} />
      )}
      {isSend && <SendDialog destination={destination} onClose={() => setSend(false)} />}
    </>
  );
}
