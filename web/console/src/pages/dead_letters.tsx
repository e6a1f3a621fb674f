// Dead letters: redrive or discard them, some or all.
import { useState } from "preact/hooks";
import { api, ask, may } from "../api.ts";
import { count, failureText, laneName, time } from "../format.ts";
import { FilterForm, LIMIT, Pager, useFilters, usePages } from "../list.tsx";
import { ErrorText, LettersByError } from "../failures.tsx";
import { MessageDialog, VerbDialog, type Verb } from "../message_dialog.tsx";
import { Button, Empty, Panel, Table, TabHead } from "../ui.tsx";
import type { TabProps } from "./destination.tsx";

export function DeadLettersTab({ session, destination, query, open }: TabProps) {
  const filters = useFilters(query);
  const [marked, setMarked] = useState<Set<number>>(new Set());
  const [verb, setVerb] = useState<{ verb: Verb; sequences: number[] | null } | null>(null);
  const path = { destination };
  const pages = usePages(
    (cursor) => ask(api.GET("/v1/destinations/{destination}/dead-letters", { params: { path, query: { ...filters.applied, limit: LIMIT, cursor } as never } })),
    [destination, filters.applied],
  );
  const items = pages.items ?? [];
  const hasFilter = Object.keys(filters.applied).length > 0;
  const mark = (sequence: number, isMarked: boolean) => setMarked((now) => {
    const next = new Set(now);
    if (isMarked) next.add(sequence);
    else next.delete(sequence);
    return next;
  });
  const which = (sequences: number[] | null) => (sequences ? { sequences } : hasFilter ? { filter: filters.applied } : { all: true });
  const done = () => {
    setVerb(null);
    setMarked(new Set());
    pages.again();
  };
  const allText = hasFilter ? "all that match" : "all";
  return (
    <>
      <TabHead sub="Messages that were set aside so that their lanes could continue">
        {may(session, "operate") && (
          <>
            <Button disabled={items.length === 0} onClick={() => setVerb({ verb: "redrive", sequences: null })}>Redrive {allText}</Button>
            <Button kind="danger" disabled={items.length === 0} onClick={() => setVerb({ verb: "discard", sequences: null })}>Discard {allText}</Button>
          </>
        )}
      </TabHead>
      <FilterForm filters={filters} names={["stage", "key", "sequence", "time", "error"]} />
      {pages.items && <LettersByError session={session} destination={destination} filters={filters.applied} turn={pages.items} onDone={pages.again} />}
      <Panel>
        {may(session, "operate") && marked.size > 0 && (
          <div class="actions marked">
            <span role="status">{count(marked.size)} marked</span>
            <Button kind="main" onClick={() => setVerb({ verb: "redrive", sequences: [...marked] })}>Redrive</Button>
            <Button kind="danger" onClick={() => setVerb({ verb: "discard", sequences: [...marked] })}>Discard</Button>
          </div>
        )}
        {pages.items?.length === 0 ? <Empty>{pages.next ? "Nothing on this page matches. Continue with the next." : "No dead letter matches."}</Empty> : (
          <Table label="Dead letters">
            <thead>
              <tr>
                <th><input type="checkbox" aria-label="Mark all on this page" checked={items.length > 0 && items.every((one) => marked.has(one.sequence))}
                  onChange={(event) => items.forEach((one) => mark(one.sequence, event.currentTarget.checked))} /></th>
                <th class="right">Sequence</th><th>Key</th><th>Id</th><th>Stage</th><th>Dead letter since</th><th>Reason</th><th>Last error</th>
              </tr>
            </thead>
            <tbody>
              {items.map((one) => (
                <tr key={one.sequence}>
                  <td><input type="checkbox" aria-label={`Mark ${one.sequence}`} checked={marked.has(one.sequence)} onChange={(event) => mark(one.sequence, event.currentTarget.checked)} /></td>
                  <td class="right"><a class="number" href={open.of(one.sequence)}>{one.sequence}</a></td>
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
      {open.sequence !== null && <MessageDialog session={session} destination={destination} sequence={open.sequence} onClose={open.close} onDone={pages.again} />}
      {verb && <VerbDialog key={verb.verb} destination={destination} verb={verb.verb} which={which(verb.sequences)} onClose={(isDone) => (isDone ? done() : setVerb(null))} />}
    </>
  );
}
