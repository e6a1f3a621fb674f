// The overview of a destination, live: its rates, what waits, its oldest heads, and what an operator can do.
import { useMemo, useRef, useState } from "preact/hooks";
import { api, ask, may, type Operation } from "../api.ts";
import { Cause, errorOf, headsOf } from "../attention.tsx";
import { LiveSign } from "../app.tsx";
import { BulkDialog } from "../bulk.tsx";
import { bytes, count, duration, failureText, laneName, rate } from "../format.ts";
import { ErrorText, LanesByError } from "../failures.tsx";
import { PendingChart, RatesChart, useHour, type Point as Charted } from "../hour.tsx";
import { useLive } from "../live.ts";
import { tab } from "../router.ts";
import { isShard, nameOf, ShardSign } from "../shards.tsx";
import { Bar, Button, Chip, Legend, Notice, Panel, Table, TabHead } from "../ui.tsx";
import type { TabProps } from "./destination.tsx";
import { PARTS, PauseButton } from "./destinations.tsx";
import type { Lane } from "./lane.tsx";
import { Tile } from "./overview.tsx";

/** A rate is that of the last five seconds, from points that are at least a second apart. */
const SPAN_MS = 5000;
const POINTS_MAX = 10;

interface Point { at: number; arrived: number; left: number; in: number; out: number }

/** How fast messages arrive and leave, from what was counted before. */
function useRates(lane: Lane | null): Point[] {
  const points = useRef<Point[]>([]);
  const last = points.current.at(-1);
  if (lane && (!last || lane.at_ms - last.at >= 1000)) {
    const now = { at: lane.at_ms, arrived: lane.counts.last_sequence, left: lane.counts.last_sequence - lane.counts.pending };
    const before = points.current.find((one) => one.at >= now.at - SPAN_MS - 1000) ?? last;
    const per = (name: "arrived" | "left") => (before ? Math.max(0, now[name] - before[name]) / ((now.at - before.at) / 1000) : 0);
    points.current = [...points.current.slice(1 - POINTS_MAX), { ...now, in: per("arrived"), out: per("left") }];
  }
  return points.current;
}

export function OverviewTab({ session, destination, definition, shards, numbers, onChanged }: TabProps) {
  const live = useLive<Lane>({ view: "lane", destination });
  // What is live is that of the first shard. The numbers of all shards are read every few seconds.
  const ofAll = useMemo(() => numbers && { at_ms: Date.now(), counts: { ...numbers, retrying: null }, heads: (numbers.heads ?? []) as Lane["heads"] }, [numbers]);
  const lane = live.value && (shards === 1 ? live.value : ofAll && { ...live.value, ...ofAll });
  const points = useRates(lane);
  const [turn, setTurn] = useState(0);
  const [now] = points.slice(-1);
  const hour = useHour(useMemo<Charted | null>(
    () => (lane && now ? [now.at / 1000, now.in, now.out, lane.counts.pending, lane.counts.retrying] : null), [now],
  ), destination);
  const attention = numbers?.attention ?? [];
  const item = { name: destination, ...numbers };
  const heads = lane?.heads.length ? lane.heads : numbers?.head ? [numbers.head] : [];
  const isFailing = heads.some((head) => head.attempts > 0 || head.state === "halted");
  return (
    <>
      <TabHead sub={lane ? "Its numbers now" : live.error ? "" : "…"}><LiveSign live={live} /></TabHead>
      {live.error && <Notice>{live.error}</Notice>}
      {lane && attention.length > 0 && (
        <Panel title="Needs attention" class="is-bad">
          <ul class="causes">
            {attention.map((one) => {
              const error = errorOf(item, one);
              return <li key={one.cause}>
                <Cause one={one} /> {one.since != null && <>for {duration(Math.max(0, (live.value ?? lane).at_ms - one.since))}</>}{error && <>: {error}</>}{" "}
                {headsOf(item, one.cause).slice(0, 1).map((head) => <a key={nameOf(head)} href={tab(head.shard ?? destination, "lane", { key: head.key ?? undefined })}>Show the lane</a>)}
              </li>;
            })}
          </ul>
        </Panel>
      )}
      {lane && now && (
        <>
          <div class="tiles">
            <Tile name="In per second" value={rate(now.in)} />
            <Tile name="Out per second" value={rate(now.out)} />
            <Tile name="Pending" value={count(lane.counts.pending)} sub={numbers ? bytes(numbers.pending_bytes) : ""} />
            <Tile name="Oldest" value={duration(heads[0]?.age_ms ?? lane.cells[0]?.age_ms)} sub="since its arrival" />
            <Tile name="Halted" value={count(lane.counts.halted)} isBad={lane.counts.halted > 0} />
            <Tile name="Dead letters" value={count(lane.counts.dead_letters)} isBad={lane.counts.dead_letters > 0} />
          </div>
          <div class="columns">
            <Panel title="Pending by state"><Bar counts={lane.counts} max={lane.counts.pending} /><Legend counts={lane.counts} /><PendingChart columns={hour} /></Panel>
            <Panel title="Messages per second"><RatesChart columns={hour} /></Panel>
          </div>
          {isFailing && <LanesByError session={session} destination={destination} ordering={lane.ordering} turn={turn} onDone={() => setTurn(turn + 1)} />}
          {heads.length > 0 && (
            <Panel title={heads.length > 1 ? "Oldest heads" : "Head"}>
              <Table label="Oldest heads">
                <thead><tr><th>Lane</th><th>State</th><th class="right">Head</th><th class="right">Age</th><th class="right">Failed attempts</th><th>Last error</th></tr></thead>
                <tbody>
                  {heads.map((head) => (
                    <tr key={nameOf(head)} class={head.attempts > 0 || head.state === "halted" ? "is-bad" : ""}>
                      <td class="cut"><a href={tab(head.shard ?? destination, "lane", { key: head.key ?? undefined })}>{laneName(head.key)}</a></td>
                      <td><Chip state={head.state} isPending attempts={head.attempts} /></td>
                      <td class="right"><a class="number" href={tab(head.shard ?? destination, "messages", {}, head.sequence)}>{head.sequence}</a><ShardSign of={head} /></td>
                      <td class="right number">{duration(head.age_ms)}</td>
                      <td class="right number">{head.attempts || ""}</td>
                      <td class="error-cell"><ErrorText text={failureText(head.last_error)} /></td>
                    </tr>
                  ))}
                </tbody>
              </Table>
            </Panel>
          )}
        </>
      )}
      {numbers && (
        <Panel title="Since it was made">
          <dl class="fields is-wide">
            {([["Arrived", numbers.last_sequence], ["Delivered", numbers.delivered_total], ["Dropped", numbers.dropped_total], ["Cancelled", numbers.cancelled_total], ["Became dead letters", numbers.dead_lettered_total]] as const)
              .map(([name, number]) => <div key={name}><dt>{name}</dt><dd class="number">{count(number)}</dd></div>)}
          </dl>
        </Panel>
      )}
      {may(session, "operate") && <Intervene destination={destination} paused={definition.paused} onChanged={onChanged} />}
    </>
  );
}

function Intervene({ destination, paused, onChanged }: { destination: string; paused: Lane["paused"]; onChanged: () => void }) {
  const [dialog, setDialog] = useState<"" | "purge" | "repair">("");
  const path = { params: { path: { destination } } };
  const bulk = (call: Promise<{ data?: unknown; error?: unknown; response: Response }>) => ask(call) as Promise<Operation>;
  const header = (isDryRun: boolean) => (isDryRun ? {} : { headers: { prefer: "respond-async" } });
  return (
    <Panel title="Intervene">
      <div class="actions">
        {!isShard(destination) && <PauseButton name={destination} paused={paused} onDone={onChanged} />}
        <Button disabled={!PARTS.every((part) => paused[part])} title="Pause ingest, processing and delivery first"
          onClick={() => setDialog("repair")}>Repair inconsistent data</Button>
        <Button kind="danger" onClick={() => setDialog("purge")}>Purge pending messages</Button>
      </div>
      {dialog === "purge" && (
        <BulkDialog title={`Purge ${destination}`} verb="Purge" danger explain="All messages that are pending now leave without delivery."
          run={(isDryRun) => bulk(api.POST("/v1/destinations/{destination}/purge", { ...path, ...header(isDryRun), body: { dry_run: isDryRun } }))} onClose={() => setDialog("")} />
      )}
      {dialog === "repair" && (
        <BulkDialog title={`Repair ${destination}`} verb="Repair" explain="Compares the records of the destination in Redis with what is derived from them. First it only counts the problems."
          run={(isDryRun) => bulk(api.POST("/v1/destinations/{destination}/repair", { ...path, ...header(isDryRun), body: { dry_run: isDryRun } }))} onClose={() => setDialog("")} />
      )}
    </Panel>
  );
}
