// What has left: the log of a destination. Delivered messages can be replayed.
import { useState } from "preact/hooks";
import { api, ask, may, type Gone, type Operation } from "../api.ts";
import { BulkDialog } from "../bulk.tsx";
import { duration, instant, laneName, time } from "../format.ts";
import { FilterForm, LIMIT, Pager, useFilters, usePages } from "../list.tsx";
import { MessageDialog } from "../message_dialog.tsx";
import { tab } from "../router.ts";
import { nameOf, ShardSign, type Item } from "../shards.tsx";
import { Button, Chip, Dialog, Empty, Field, Panel, Table, TabHead } from "../ui.tsx";
import type { TabProps } from "./destination.tsx";

export function HistoryTab({ session, destination, query, shards, open }: TabProps) {
  const filters = useFilters(query);
  const [isReplay, setReplay] = useState(false);
  const pages = usePages(
    (cursor) => ask(api.GET("/v1/destinations/{destination}/log", { params: { path: { destination }, query: { ...filters.applied, limit: LIMIT, cursor } as never } })),
    [destination, filters.applied],
  );
  return (
    <>
      <TabHead sub="The last messages that left, the newest first">
        {may(session, "operate") && <Button onClick={() => setReplay(true)}>Replay</Button>}
      </TabHead>
      <FilterForm filters={filters} shards={shards} names={["state", "key", "sequence", "time"]} states={["delivered", "dropped", "dead_lettered", "cancelled"]} />
      <Panel>
        {pages.items?.length === 0 ? <Empty>{pages.next ? "Nothing on this page matches. Continue with the next." : "Nothing in the log matches."}</Empty> : (
          <Table label="History">
            <thead><tr><th class="right">Sequence</th><th>State</th><th>Key</th><th>Id</th><th>Left</th><th class="right">Waited</th><th class="right">Processing</th><th class="right">Delivery</th><th class="right">In all</th><th class="right">Attempts</th></tr></thead>
            <tbody>
              {pages.items?.map((item) => {
                if (!("latency" in item)) return <tr key={nameOf(item)}><td class="right number">{item.sequence}<ShardSign of={item} /></td><td colSpan={9}>{item.damaged}</td></tr>;
                const one = item as Gone & Item;
                return (
                  <tr key={`${one.epoch}/${nameOf(one)}`}>
                    <td class="right"><a class="number" href={open.of(one)}>{one.sequence}</a><ShardSign of={one} /></td>
                    <td><Chip state={one.state} /></td>
                    <td class="cut">{one.key == null ? "" : <a href={tab(one.shard ?? destination, "lane", { key: one.key })}>{laneName(one.key)}</a>}</td>
                    <td class="cut"><code>{one.id}</code></td>
                    <td class="number nowrap">{time(one.settled_at)}</td>
                    <td class="right number nowrap">{duration(one.latency.waited_ms)}</td>
                    <td class="right number nowrap">{duration(one.latency.processing_ms)}</td>
                    <td class="right number nowrap">{duration(one.latency.delivery_ms)}</td>
                    <td class="right number nowrap">{duration(one.latency.total_ms)}</td>
                    <td class="right number">{one.attempts}</td>
                  </tr>
                );
              })}
            </tbody>
          </Table>
        )}
        <Pager pages={pages} />
      </Panel>
      {open.sequence !== null && <MessageDialog session={session} destination={open.shard} sequence={open.sequence} onClose={open.close} onDone={pages.again} />}
      {isReplay && <ReplayDialog destination={destination} isSpread={shards > 1} onClose={() => setReplay(false)} />}
    </>
  );
}

function ReplayDialog({ destination, isSpread, onClose }: { destination: string; isSpread: boolean; onClose: () => void }) {
  const [texts, setTexts] = useState<Record<string, string>>({ idempotency_key: `replay-${new Date().toISOString().slice(0, 19)}` });
  const [isRunning, setRunning] = useState(false);
  const set = (name: string) => (event: { currentTarget: { value: string } }) => setTexts((now) => ({ ...now, [name]: event.currentTarget.value }));
  const number = (name: string) => (texts[name] ? Number(texts[name]) : undefined);
  const body = {
    from_sequence: number("from_sequence"), to_sequence: number("to_sequence"), from_time: instant(texts.from_time ?? ""), to_time: instant(texts.to_time ?? ""),
    to_destination: texts.to_destination || undefined, idempotency_key: texts.idempotency_key || undefined,
  };
  const isReady = body.from_sequence !== undefined || body.from_time !== undefined;
  if (isRunning) {
    return (
      <BulkDialog title="Replay messages" verb="Replay" explain={`Delivered messages are stored again at the end of their lanes in ${body.to_destination ?? destination}, in the form in which they first arrived.`}
        run={(isDryRun) => ask(api.POST("/v1/destinations/{destination}/replay", { params: { path: { destination } }, headers: isDryRun ? {} : { prefer: "respond-async" }, body: { ...body, dry_run: isDryRun } as never })) as Promise<Operation>}
        isSpread={isSpread} onClose={onClose} />
    );
  }
  return (
    <Dialog title="Replay messages" onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); if (isReady) setRunning(true); }}>
        <p>Which delivered messages? The destination must keep bodies in its log (log_bodies).</p>
        <div class="form-grid">
          {/* Each shard counts sequences of its own. */}
          {!isSpread && <Field label="From sequence"><input inputMode="numeric" value={texts.from_sequence ?? ""} onInput={set("from_sequence")} /></Field>}
          {!isSpread && <Field label="To sequence"><input inputMode="numeric" value={texts.to_sequence ?? ""} onInput={set("to_sequence")} /></Field>}
          <Field label="Delivered from"><input type="datetime-local" step="1" value={texts.from_time ?? ""} onInput={set("from_time")} /></Field>
          <Field label="Delivered to"><input type="datetime-local" step="1" value={texts.to_time ?? ""} onInput={set("to_time")} /></Field>
          <Field label="To destination" hint="The same one if it is empty."><input value={texts.to_destination ?? ""} onInput={set("to_destination")} /></Field>
          <Field label="Idempotency key" hint="With the same key, a repeat duplicates nothing."><input value={texts.idempotency_key ?? ""} onInput={set("idempotency_key")} /></Field>
        </div>
        <div class="actions is-end"><Button onClick={onClose}>Close</Button><Button type="submit" kind="main" disabled={!isReady}>Count them</Button></div>
      </form>
    </Dialog>
  );
}
