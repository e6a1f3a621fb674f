// Dead letters: redrive or discard them, some or all.
import { useState } from "preact/hooks";
import { api, ask, may } from "../api.ts";
import { count, failureText, laneName, time } from "../format.ts";
import { FilterForm, LIMIT, Pager, useFilters, usePages } from "../list.tsx";
import { ErrorText, LettersByError } from "../failures.tsx";
import { MessageDialog, VerbDialog, type Verb } from "../message_dialog.tsx";
import { nameOf, ShardSign, type Item } from "../shards.tsx";
import { Button, Empty, Panel, Table, TabHead } from "../ui.tsx";
import type { TabProps } from "./destination.tsx";

export function DeadLettersTab({ session, destination, query, shards, open }: TabProps) {
  const filters = useFilters(query);
  const [marked, setMarked] = useState<Map<string, Item>>(new Map());
  const [verb, setVerb] = useState<{ verb: Verb; items: Item[] | null } | null>(null);
  const pages = usePages(
    (cursor) => ask(api.GET("/v1/destinations/{destination}/dead-letters", { params: { path: { destination }, query: { ...filters.applied, limit: LIMIT, cursor } as never } })),
    [destination, filters.applied],
  );
  const items = pages.items ?? [];
  const hasFilter = Object.keys(filters.applied).length > 0;
  const mark = (one: Item, isMarked: boolean) => setMarked((now) => {
    const next = new Map(now);
    if (isMarked) next.set(nameOf(one), one);
    else next.delete(nameOf(one));
    return next;
  });
  const which = (marked: Item[] | null) => (marked ?? (hasFilter ? { filter: filters.applied } : { all: true }));
  const done = () => {
    setVerb(null);
    setMarked(new Map());
    pages.again();
  };
  const allText = hasFilter ? "all that match" : "all";
  return (
    <>
      <TabHead sub="Messages that were set aside so that their lanes could continue">
        {may(session, "operate") && (
          <>
            <Button disabled={items.length === 0} onClick={() => setVerb({ verb: "redrive", items: null })}>Redrive {allText}</Button>
            <Button kind="danger" disabled={items.length === 0} onClick={() => setVerb({ verb: "discard", items: null })}>Discard {allText}</Button>
          </>
        )}
      </TabHead>
      <FilterForm filters={filters} shards={shards} names={["stage", "key", "sequence", "time", "error"]} />
      {pages.items && <LettersByError session={session} destination={destination} filters={filters.applied} turn={pages.items} onDone={pages.again} />}
      <Panel>
        {may(session, "operate") && marked.size > 0 && (
          <div class="actions marked">
            <span role="status">{count(marked.size)} marked</span>
            <Button kind="main" onClick={() => setVerb({ verb: "redrive", items: [...marked.values()] })}>Redrive</Button>
            <Button kind="danger" onClick={() => setVerb({ verb: "discard", items: [...marked.values()] })}>Discard</Button>
          </div>
        )}
        {pages.items?.length === 0 ? <Empty>{pages.next ? "Nothing on this page matches. Continue with the next." : "No dead letter matches."}</Empty> : (
          <Table label="Dead letters">
            <thead>
              <tr>
                <th><input type="checkbox" aria-label="Mark all on this page" checked={items.length > 0 && items.every((one) => marked.has(nameOf(one)))}
                  onChange={(event) => items.forEach((one) => mark(one, event.currentTarget.checked))} /></th>
                <th class="right">Sequence</th><th>Key</th><th>Id</th><th>Stage</th><th>Dead letter since</th><th>Reason</th><th>Last error</th>
              </tr>
            </thead>
            <tbody>
              {items.map((one) => (
                <tr key={nameOf(one)}>
                  <td><input type="checkbox" aria-label={`Mark ${one.sequence}${one.shard ? ` ${one.shard}` : ""}`} checked={marked.has(nameOf(one))} onChange={(event) => mark(one, event.currentTarget.checked)} /></td>
                  <td class="right"><a class="number" href={open.of(one)}>{one.sequence}</a><ShardSign of={one} /></td>
                  <td class="cut">{one.key == null ? "" : laneName(one.key)}</td>
                  <td class="cut"><code>{one.id}</code></td>
                  <td>{one.stage}</td>
                  <td class="number nowrap">{time(one.dead_lettered_at)}</td>
                  <td class="error-cell"><ErrorText text={one.reason} /></td>
                  <td class="error-cell"><ErrorText text={failureText(one.last_error) ?? one.damaged} /></td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
        <Pager pages={pages} />
      </Panel>
      {open.sequence !== null && <MessageDialog session={session} destination={open.shard} sequence={open.sequence} onClose={open.close} onDone={pages.again} />}
      {verb && <VerbDialog key={verb.verb} destination={destination} verb={verb.verb} which={which(verb.items)} isSpread={shards > 1} onClose={(isDone) => (isDone ? done() : setVerb(null))} />}
    </>
  );
}
