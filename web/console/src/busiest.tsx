// The lanes with the most waiting, like `reseq lanes`.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, type Schema } from "./api.ts";
import { count, duration, laneName, percent } from "./format.ts";
import { tab } from "./router.ts";
import { ShardSign } from "./shards.tsx";
import { Button, Chip, Empty, ErrorNotice, Panel, Table, useAction } from "./ui.tsx";

type Lane = Schema["Lane"];

const SHOWN = 10;

/** A panel with the largest lanes of a destination. It reads the keys in parts, each of which is bounded. */
export function BusiestLanes({ destination }: { destination: string }) {
  const [largest, setLargest] = useState<Lane[] | null>(null);
  const [progress, setProgress] = useState<number | null>(null);
  const { isBusy, error, run } = useAction();
  const isWanted = useRef(true);
  useEffect(() => () => { isWanted.current = false; }, []);
  const find = () => run(async () => {
    isWanted.current = true;
    setProgress(null);
    let all: Lane[] = [];
    let cursor: string | undefined;
    do {
      const part = await ask(api.GET("/v1/destinations/{destination}/lanes", { params: { path: { destination }, query: { limit: SHOWN, cursor } } }));
      // A part may show a lane again.
      const seen = new Set(part.items.map((lane) => lane.key));
      all = [...all.filter((lane) => !seen.has(lane.key)), ...part.items].sort((a, b) => b.pending - a.pending).slice(0, SHOWN);
      setLargest(all);
      setProgress(part.progress ?? null);
      cursor = part.next_cursor ?? undefined;
    } while (cursor && isWanted.current);
  });
  return (
    <Panel title="Lanes with the most waiting" tools={isBusy
      ? <><span class="muted" role="status">reading{progress === null ? "" : `, ${percent(progress)} of the keys`} …</span><Button onClick={() => { isWanted.current = false; }}>Stop</Button></>
      : <Button onClick={find}>{largest ? "Read again" : "Find them"}</Button>}>
      <ErrorNotice error={error} />
      {largest === null ? <Empty>Reseq looks through the ordering keys in small parts, and you can stop it.</Empty>
        : largest.length === 0 ? <Empty>{isBusy ? "…" : "Nothing is pending."}</Empty> : (
          <Table label="Lanes with the most waiting">
            <thead><tr><th>Key</th><th class="right">Pending</th><th class="right">Ready</th><th>Head</th><th class="right">Age of the head</th></tr></thead>
            <tbody>
              {largest.map((lane) => (
                <tr key={lane.key}>
                  <td class="cut"><a href={tab(lane.shard ?? destination, "lane", { key: lane.key ?? "" })}>{laneName(lane.key)}</a><ShardSign of={lane} /></td>
                  <td class="right number">{count(lane.pending)}</td>
                  <td class="right number">{count(lane.ready)}</td>
                  <td>{lane.head && <><span class="number">{lane.head.sequence}</span> <Chip state={lane.head.state} isPending attempts={lane.head.attempts} /></>}</td>
                  <td class="right number">{duration(lane.head?.received_at ? Date.now() - new Date(lane.head.received_at).getTime() : null)}</td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
    </Panel>
  );
}
