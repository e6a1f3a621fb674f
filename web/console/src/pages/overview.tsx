// The deployment at a glance.
import { useEffect, useMemo, useState } from "preact/hooks";
import { NeedsAttention } from "../attention.tsx";
import { Chart } from "../chart.tsx";
import { bytes, count, duration, many, rate } from "../format.ts";
import { PendingChart, RatesChart, useHour, type Point } from "../hour.tsx";
import { useLive } from "../live.ts";
import { tab } from "../router.ts";
import { Bar, Empty, Head, Legend, Notice, Panel, Table, type Counted } from "../ui.tsx";
import { LiveSign } from "../app.tsx";

interface Overview {
  at_ms: number;
  destinations: number;
  paused: number;
  damaged: number;
  in_per_second: number;
  out_per_second: number;
  totals: Record<Counted | "pending" | "dead_letters" | "pending_bytes" | "retrying" | "left", number>;
  latency: {
    messages: number; p50_ms: number | null; p99_ms: number | null; overhead_p50_ms: number | null; overhead_p99_ms: number | null;
  };
  stuck_destinations: number;
  busiest: { name: string; in_per_second: number; out_per_second: number; pending: number }[];
  redis: { silent_partitions: number; servers: { used_bytes: number; max_bytes: number }[] };
  pods: { all: number; by_role: Record<string, number> } | null;
}

/** Points of the latency: the last five minutes. */
const POINTS_MAX = 300;
const LATENCIES = [
  { label: "end to end, p50", color: "--blue" }, { label: "end to end, p99", color: "--amber", dash: [7, 4] },
  { label: "overhead, p50", color: "--green", dash: [2, 3] },
];

export function OverviewPage() {
  const live = useLive<Overview>({ view: "overview" });
  const now = live.value;
  const [points, setPoints] = useState<(number | null)[][]>([[], [], [], []]);
  useEffect(() => {
    if (!now) return;
    const { latency } = now;
    const next = [now.at_ms / 1000, latency.p50_ms, latency.p99_ms, latency.overhead_p50_ms];
    setPoints((all) => all.map((line, at) => [...line.slice(-POINTS_MAX + 1), next[at] ?? null]));
  }, [now]);
  const hour = useHour(useMemo<Point | null>(
    () => now && [now.at_ms / 1000, now.in_per_second, now.out_per_second, now.totals.pending, now.totals.retrying], [now],
  ));
  const [x = [], p50 = [], p99 = [], overhead = []] = points;
  return (
    <>
      <Head title="Overview" sub={now ? `${many(now.destinations, "destination")}${now.paused ? `, ${now.paused} paused` : ""}` : "…"}>
        <LiveSign live={live} />
      </Head>
      {live.error && <Notice>{live.error}</Notice>}
      {now && (
        <>
          {now.damaged > 0 && <Notice>The numbers of {many(now.damaged, "destination")} cannot be read.</Notice>}
          <NeedsAttention nowMs={now.at_ms} isStale={live.isStale} />
          <div class="tiles">
            <Tile name="In per second" value={rate(now.in_per_second)} />
            <Tile name="Out per second" value={rate(now.out_per_second)} />
            <Tile name="End to end" value={duration(now.latency.p50_ms)} sub={`median, p99 ${duration(now.latency.p99_ms)}`} />
            <Tile name="Overhead" value={duration(now.latency.overhead_p50_ms)} sub={`median, p99 ${duration(now.latency.overhead_p99_ms)}`} />
            <Tile name="Pending" value={count(now.totals.pending)} sub={bytes(now.totals.pending_bytes)} />
            <Tile name="Halted" value={count(now.totals.halted)} isBad={now.totals.halted > 0} sub={`in ${count(now.stuck_destinations)} ${now.stuck_destinations === 1 ? "destination" : "destinations"}`} />
            <Tile name="Dead letters" value={count(now.totals.dead_letters)} isBad={now.totals.dead_letters > 0} />
          </div>
          <Panel title="Pending by state">
            <Bar counts={now.totals} max={now.totals.pending} />
            <Legend counts={now.totals} />
            <PendingChart columns={hour} />
          </Panel>
          <div class="columns">
            <Panel title="Messages per second">
              <RatesChart columns={hour} />
            </Panel>
            <Panel title="Latency">
              <Chart label={`End to end ${duration(now.latency.p50_ms)} at the median`} unit=" ms" lines={LATENCIES} data={[x, p50, p99, overhead]} />
              <p class="muted small">Of the last {count(now.latency.messages)} messages of the destinations that deliver most, from their history. Overhead: how much later a message left than it would have, had its work begun when it arrived and had it waited for nothing but the messages in front of it.</p>
            </Panel>
          </div>
          <div class="columns">
            <Panel title="Busiest destinations">
              {now.busiest.length === 0 ? <Empty>Nothing moves.</Empty> : (
                <Table label="Busiest destinations">
                  <thead><tr><th>Destination</th><th class="right">In / s</th><th class="right">Out / s</th><th class="right">Pending</th></tr></thead>
                  <tbody>
                    {now.busiest.map((one) => (
                      <tr key={one.name}>
                        <td><a href={tab(one.name, "overview")}>{one.name}</a></td>
                        <td class="right number">{rate(one.in_per_second)}</td>
                        <td class="right number">{rate(one.out_per_second)}</td>
                        <td class="right number">{count(one.pending)}</td>
                      </tr>
                    ))}
                  </tbody>
                </Table>
              )}
            </Panel>
            <Panel title="Pods and Redis">
              <dl class="fields">
                <div><dt>Pods</dt><dd>{now.pods ? count(now.pods.all) : "cannot be read"}</dd></div>
                {Object.entries(now.pods?.by_role ?? {}).map(([role, number]) => <div key={role}><dt>with the role {role}</dt><dd class="number">{count(number)}</dd></div>)}
                {now.redis.servers.map((server, at) => (
                  <div key={at}>
                    <dt>Redis{now.redis.servers.length > 1 ? ` ${at + 1}` : ""}</dt>
                    <dd>{bytes(server.used_bytes)} {server.max_bytes ? `of ${bytes(server.max_bytes)}` : "used, no maxmemory"}</dd>
                  </div>
                ))}
                {now.redis.silent_partitions > 0 && <div><dt>Partitions without an answer</dt><dd>{now.redis.silent_partitions}</dd></div>}
              </dl>
            </Panel>
          </div>
        </>
      )}
    </>
  );
}

export function Tile({ name, value, sub, isBad = false }: { name: string; value: string; sub?: string; isBad?: boolean }) {
  return (
    <div class={`tile ${isBad ? "is-bad" : ""}`}>
      <span class="tile-name">{name}</span>
      <span class="tile-value number">{value}</span>
      <span class="tile-sub number">{sub ?? ""}</span>
    </div>
  );
}
