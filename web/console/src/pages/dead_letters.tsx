// Dead letters: redrive or discard them, some or all.
import { useState } from "preact/hooks";
import { api, ask, may, type Operation, type Session } from "../api.ts";
import { BulkDialog } from "../bulk.tsx";
import { count, laneName, time } from "../format.ts";
import { FilterForm, LIMIT, Pager, useFilters, usePages } from "../list.tsx";
import { Body, Errors, Fields, Timeline } from "../message.tsx";
import { href } from "../router.ts";
import { Button, Dialog, Empty, ErrorNotice, Head, Panel, Table, useLoad } from "../ui.tsx";

type Verb = "redrive" | "discard";

export function DeadLettersPage({ session, destination, query }: { session: Session; destination: string; query: URLSearchParams }) {
  const filters = useFilters(query);
  const [marked, setMarked] = useState<Set<number>>(new Set());
  const [open, setOpen] = useState<number | null>(null);
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
  const run = (isDryRun: boolean) => {
    const options = { params: { path }, headers: isDryRun ? {} : { prefer: "respond-async" }, body: { ...which(verb!.sequences), dry_run: isDryRun } as never };
    const call = verb!.verb === "redrive"
      ? api.POST("/v1/destinations/{destination}/dead-letters/redrive", options)
      : api.POST("/v1/destinations/{destination}/dead-letters/discard", options);
    return ask(call) as Promise<Operation>;
  };
  const done = () => {
    setVerb(null);
    setMarked(new Set());
    pages.again();
  };
  const allText = hasFilter ? "all that match" : "all";
  return (
    <>
      <Head title={<>Dead letters of <a href={href(["destinations", destination])}>{destination}</a></>} sub="Messages that were set aside so that their lanes could continue">
        {may(session, "operate") && (
          <>
            <Button disabled={items.length === 0} onClick={() => setVerb({ verb: "redrive", sequences: null })}>Redrive {allText}</Button>
            <Button kind="danger" disabled={items.length === 0} onClick={() => setVerb({ verb: "discard", sequences: null })}>Discard {allText}</Button>
          </>
        )}
      </Head>
      <FilterForm filters={filters} names={["stage", "key", "sequence", "time", "error"]} />
      <Panel tools={null}>
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
                  <td class="right"><button type="button" class="link number" onClick={() => setOpen(one.sequence)}>{one.sequence}</button></td>
                  <td class="cut">{one.key == null ? "" : laneName(one.key)}</td>
                  <td class="cut"><code>{one.id}</code></td>
                  <td>{one.stage}</td>
                  <td class="number nowrap">{time(one.dead_lettered_at)}</td>
                  <td class="cut">{one.reason}</td>
                  <td class="cut">{one.last_error?.detail ?? one.damaged ?? ""}</td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
        <Pager pages={pages} />
      </Panel>
      {open !== null && <Letter destination={destination} sequence={open} canOperate={may(session, "operate")} onClose={() => setOpen(null)}
        onVerb={(next) => { setVerb({ verb: next, sequences: [open] }); setOpen(null); }} />}
      {verb && (
        <BulkDialog key={verb.verb} title={verb.verb === "redrive" ? "Redrive dead letters" : "Discard dead letters"} verb={verb.verb === "redrive" ? "Redrive" : "Discard"} danger={verb.verb === "discard"}
          explain={verb.verb === "redrive" ? "Each is stored again, at the end of its lane, with its id, key and headers." : "Each is deleted. Nobody can bring it back."}
          run={run} onClose={(isDone) => (isDone ? done() : setVerb(null))} />
      )}
    </>
  );
}

function Letter({ destination, sequence, canOperate, onClose, onVerb }: {
  destination: string; sequence: number; canOperate: boolean; onClose: () => void; onVerb: (verb: Verb) => void;
}) {
  const { value, error } = useLoad(() => ask(api.GET("/v1/destinations/{destination}/dead-letters/{sequence}", { params: { path: { destination, sequence } } })), [sequence]);
  return (
    <Dialog title={`Dead letter ${sequence}`} wide onClose={onClose}>
      <ErrorNotice error={error} />
      {value && (
        <div class="message">
          {canOperate && <div class="actions"><Button kind="main" onClick={() => onVerb("redrive")}>Redrive</Button><Button kind="danger" onClick={() => onVerb("discard")}>Discard</Button></div>}
          <h3>Timeline</h3>
          <Timeline message={value} />
          {value.errors && value.errors.length > 0 && <><h3>Errors</h3><Errors errors={value.errors} /></>}
          <h3>Fields</h3>
          <Fields message={value} destination={destination} />
          <Body message={value} name={`${destination}-${sequence}`} />
        </div>
      )}
    </Dialog>
  );
}
