// Bulk operations of a destination.
import { useEffect } from "preact/hooks";
import { api, ask, may, type Operation } from "../api.ts";
import { cancelOperation, Progress } from "../bulk.tsx";
import { count, time } from "../format.ts";
import { LIMIT, Pager, usePages } from "../list.tsx";
import { ShardSign } from "../shards.tsx";
import { Button, Empty, ErrorNotice, Panel, Table, TabHead, useAction } from "../ui.tsx";
import type { TabProps } from "./destination.tsx";

export function OperationsTab({ session, destination }: TabProps) {
  const pages = usePages(
    (cursor) => ask(api.GET("/v1/destinations/{destination}/operations", { params: { path: { destination }, query: { limit: LIMIT, cursor } } })),
    [destination],
  );
  const { error, run } = useAction();
  // An operation on several shards is one in each.
  const items = ((pages.items ?? []) as Operation[]).map((one) => ({ ...one, destination: one.shard ?? one.destination }));
  const running = items.filter((one) => one.state === "running");
  useEffect(() => {
    if (running.length === 0) return;
    const timer = setTimeout(pages.again, 1000);
    return () => clearTimeout(timer);
  }, [pages.value]);
  return (
    <>
      <TabHead sub="Purge, redrive, discard, replay, repair and retry of all heads, of the last seven days" />
      <ErrorNotice error={error} />
      {running.map((one) => (
        <Panel key={`${one.destination}/${one.id}`} title={`${one.kind.replace("_", " ")} is running${one.shard ? ` in ${one.shard}` : ""}`} tools={may(session, "operate") && <Button onClick={() => run(async () => { await cancelOperation(one); pages.again(); })}>Cancel the operation</Button>}>
          <Progress operation={one} />
        </Panel>
      ))}
      <Panel>
        {pages.items?.length === 0 ? <Empty>There was no operation.</Empty> : (
          <Table label="Operations">
            <thead><tr><th>Kind</th><th>State</th><th>Started</th><th>Last progress</th><th class="right">Matched</th><th class="right">Affected</th><th class="right">Failed</th><th>Problem</th></tr></thead>
            <tbody>
              {items.map((one) => (
                <tr key={`${one.destination}/${one.id}`}>
                  <td>{one.kind.replace("_", " ")}<ShardSign of={one} />{one.dry_run && <span class="tag">only counted</span>}</td>
                  <td>{one.state}</td>
                  <td class="number nowrap">{time(one.started_at)}</td>
                  <td class="number nowrap">{time(one.updated_at)}</td>
                  <td class="right number">{count(one.matched)}</td>
                  <td class="right number">{count(one.affected)}</td>
                  <td class="right number">{count(one.failed)}</td>
                  <td class="cut">{one.problem?.detail ?? (one.items?.map((item) => `${item.kind}: ${item.matched}`).join(", ") || "")}</td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
        <Pager pages={pages} />
      </Panel>
    </>
  );
}
