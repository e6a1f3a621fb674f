// Pending messages, and any message by its sequence, its id or its idempotency key.
import { useState } from "preact/hooks";
import { api, ask, may, type Destination, type Session } from "../api.ts";
import { bytes, duration, failureText, laneName, time } from "../format.ts";
import { ErrorText } from "../failures.tsx";
import { FilterForm, LIMIT, Pager, useFilters, usePages } from "../list.tsx";
import { MessageDialog } from "../message_dialog.tsx";
import { go, tab } from "../router.ts";
import { nameOf, ShardSign, shardsOf, type Item } from "../shards.tsx";
import { Button, Chip, Empty, ErrorNotice, Notice, Panel, Table, TabHead, useAction } from "../ui.tsx";
import type { TabProps } from "./destination.tsx";

export function MessagesTab({ session, destination, query, definition, shards, open }: TabProps) {
  const filters = useFilters(query);
  const pages = usePages(
    (cursor) => ask(api.GET("/v1/destinations/{destination}/messages", { params: { path: { destination }, query: { ...filters.applied, limit: LIMIT, cursor } as never } })),
    [destination, filters.applied],
  );
  return (
    <>
      <TabHead sub="Pending messages. Those that have left are in the history." />
      <Find session={session} destination={destination} definition={definition} onFound={(one) => go(open.of(one))} />
      <FilterForm filters={filters} shards={shards} names={["state", "key", "sequence", "time", "error"]} states={["waiting", "processing", "delayed", "ready", "halted"]} />
      <Panel>
        {pages.items?.length === 0 ? <Empty>{pages.next ? "Nothing on this page matches. Continue with the next." : "No pending message matches."}</Empty> : (
          <Table label="Messages">
            <thead><tr><th class="right">Sequence</th><th>State</th><th>Key</th><th>Id</th><th>Arrived</th><th class="right">Age</th><th class="right">Failed attempts</th><th class="right">Body</th><th>Last error</th></tr></thead>
            <tbody>
              {pages.items?.map((one) => (
                <tr key={nameOf(one)}>
                  <td class="right"><a class="number" href={open.of(one)}>{one.sequence}</a><ShardSign of={one} /></td>
                  <td><Chip state={one.state} isPending />{one.withdrawing && <span class="tag">withdrawing</span>}</td>
                  <td class="cut">{one.key == null ? "" : <a href={tab(one.shard ?? destination, "lane", { key: one.key })}>{laneName(one.key)}</a>}</td>
                  <td class="cut"><code>{one.id}</code></td>
                  <td class="number nowrap">{time(one.received_at)}</td>
                  <td class="right number nowrap">{duration(one.age_ms)}</td>
                  <td class="right number">{one.attempts || ""}</td>
                  <td class="right number nowrap">{bytes(one.bytes)}</td>
                  <td class="error-cell"><ErrorText text={failureText(one.last_error) ?? one.damaged} /></td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
        <Pager pages={pages} />
      </Panel>
      {open.sequence !== null && <MessageDialog session={session} destination={open.shard} sequence={open.sequence} onClose={open.close} onDone={pages.again} />}
    </>
  );
}

/** Finds one message. With several shards a sequence is not enough. */
function Find({ session, destination, definition, onFound }: { session: Session; destination: string; definition: Destination; onFound: (one: Item) => void }) {
  const isSpread = shardsOf(destination, definition) > 1;
  const [by, setBy] = useState(isSpread ? "id" : "sequence");
  const [text, setText] = useState("");
  const [told, tell] = useState("");
  const { isBusy, error, run, setError } = useAction();
  const find = () => run(async () => {
    tell("");
    if (by === "sequence") return onFound({ sequence: Number(text) });
    if (by === "id") {
      const found = await ask(api.GET("/v1/destinations/{destination}/messages/by-id/{id}", { params: { path: { destination, id: text } } }));
      return onFound({ sequence: found.sequence, shard: found.shard });
    }
    const gone = await ask(api.DELETE("/v1/destinations/{destination}/messages", { params: { path: { destination }, query: { idempotency_key: text } } }));
    tell(`Message ${gone.sequence} is now ${gone.state}.`);
  });
  const isValid = by === "sequence" ? /^\d+$/.test(text.trim()) : text !== "";
  return (
    <>
      <form class="filters" aria-label="Find a message" onSubmit={(event) => { event.preventDefault(); if (isValid) find(); }}>
        <label>Find by <select value={by} onChange={(event) => { setBy(event.currentTarget.value); setError(null); }}>
          {!isSpread && <option value="sequence">sequence</option>}<option value="id">id</option>
          {may(session, "operate") && <option value="idempotency_key">idempotency key (to cancel)</option>}
        </select></label>
        <input aria-label="What to find" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <Button type="submit" kind={by === "idempotency_key" ? "danger" : "plain"} disabled={isBusy || !isValid}>{by === "idempotency_key" ? "Cancel the message" : "Show"}</Button>
      </form>
      <ErrorNotice error={error} />
      {told && <Notice kind="good">{told}</Notice>}
    </>
  );
}
