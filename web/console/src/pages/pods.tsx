// The live pods, and who owns which partition.
import { LiveSign } from "../app.tsx";
import { count, duration, many, ranges } from "../format.ts";
import { useLive } from "../live.ts";
import { Empty, Head, Notice, Panel, Table } from "../ui.tsx";

interface Pods {
  at_ms: number;
  pods: { pod: string; host: string; roles: string[]; schema: number; version: string; address: string; started_ms: number; expires_in_ms: number; partitions: number[]; is_self: boolean }[];
  partitions: { partition: number; owner: string | null; destinations: number }[];
}

export function PodsPage() {
  const live = useLive<Pods>({ view: "pods" });
  const now = live.value;
  const owners = new Map<string, { partitions: number[]; destinations: number }>();
  for (const { partition, owner, destinations } of now?.partitions ?? []) {
    const held = owners.get(owner ?? "") ?? { partitions: [], destinations: 0 };
    owners.set(owner ?? "", { partitions: [...held.partitions, partition], destinations: held.destinations + destinations });
  }
  return (
    <>
      <Head title="Pods and partitions" sub={now ? `${many(now.pods.length, "pod")}, ${many(now.partitions.length, "partition")}` : "…"}><LiveSign live={live} /></Head>
      {live.error && <Notice>{live.error}</Notice>}
      {now && (
        <>
          <Panel title="Pods">
            <Table label="Pods">
              <thead><tr><th>Pod</th><th>Host</th><th>Roles</th><th>Version</th><th>Started</th><th>Partitions</th><th class="right">Heartbeat counts for</th></tr></thead>
              <tbody>
                {now.pods.map((pod) => (
                  <tr key={pod.pod}>
                    <td><code>{pod.pod}</code>{pod.is_self && <span class="tag">this one</span>}</td>
                    <td>{pod.host}<br /><code class="muted">{pod.address}</code></td>
                    <td>{pod.roles.join(", ")}</td>
                    <td title={`schema ${pod.schema}`}>{pod.version}</td>
                    <td class="number">{pod.started_ms > 0 && `${duration(now.at_ms - pod.started_ms)} ago`}</td>
                    <td class="number">{ranges(pod.partitions) || "none"}</td>
                    <td class="right number">{duration(pod.expires_in_ms)}</td>
                  </tr>
                ))}
              </tbody>
            </Table>
          </Panel>
          <Panel title="Partitions">
            {owners.size === 0 ? <Empty>There are no partitions.</Empty> : (
              <Table label="Partitions">
                <thead><tr><th>Owner</th><th>Partitions</th><th class="right">Destinations</th></tr></thead>
                <tbody>
                  {[...owners].sort(([a], [b]) => a.localeCompare(b)).map(([owner, held]) => (
                    <tr key={owner} class={owner ? "" : "is-bad"}>
                      <td>{owner ? <code>{owner}</code> : <span class="tag is-bad">no owner</span>}</td>
                      <td class="number">{ranges(held.partitions)} <span class="muted">({count(held.partitions.length)})</span></td>
                      <td class="right number">{count(held.destinations)}</td>
                    </tr>
                  ))}
                </tbody>
              </Table>
            )}
          </Panel>
        </>
      )}
    </>
  );
}
