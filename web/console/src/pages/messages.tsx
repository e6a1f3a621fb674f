// Pending messages, and any message by its sequence, its id or its idempotency key.
import { useState } from "preact/hooks";
import { api, ask, may, type Session } from "../api.ts";
import { bytes, duration, laneName, time } from "../format.ts";
import { FilterForm, LIMIT, Pager, useFilters, usePages } from "../list.tsx";
import { isGone, isLetter, MessageDetails } from "../message.tsx";
import { href } from "../router.ts";
import { Button, Chip, Dialog, Empty, ErrorNotice, Head, Notice, Panel, Table, useAction } from "../ui.tsx";
import { CancelButton } from "./lane.tsx";

export function MessagesPage({ session, destination, query }: { session: Session; destination: string; query: URLSearchParams }) {
  const filters = useFilters(query);
  const [open, setOpen] = useState<number | null>(query.get("sequence") ? Number(query.get("sequence")) : null);
  const path = { destination };
  const pages = usePages(
    (cursor) => ask(api.GET("/v1/destinations/{destination}/messages", { params: { path, query: { ...filters.applied, limit: LIMIT, cursor } as never } })),
    [destination, filters.applied],
  );
  return (
    <>
      <Head title={<>Messages of <a href={href(["destinations", destination])}>{destination}</a></>} sub="Pending messages. Those that have left are in the history.">
        <a class="button" href={href(["history", destination])}>History</a>
      </Head>
      <Find session={session} destination={destination} onFound={setOpen} />
      <FilterForm filters={filters} names={["state", "key", "sequence", "time", "error"]} states={["waiting", "processing", "delayed", "ready", "halted"]} />
      <Panel>
        {pages.items?.length === 0 ? <Empty>{pages.next ? "Nothing on this page matches. Continue with the next." : "No pending message matches."}</Empty> : (
          <Table label="Messages">
            <thead><tr><th class="right">Sequence</th><th>State</th><th>Key</th><th>Id</th><th>Arrived</th><th class="right">Age</th><th class="right">Failed attempts</th><th class="right">Body</th><th>Last error</th></tr></thead>
            <tbody>
              {pages.items?.map((one) => (
                <tr key={one.sequence}>
                  <td class="right"><button type="button" class="link number" onClick={() => setOpen(one.sequence)}>{one.sequence}</button></td>
                  <td><Chip state={one.state} isPending />{one.withdrawing && <span class="tag">withdrawing</span>}</td>
                  <td class="cut">{one.key == null ? "" : <a href={href(["lanes", destination], { key: one.key })}>{laneName(one.key)}</a>}</td>
                  <td class="cut"><code>{one.id}</code></td>
                  <td class="number nowrap">{time(one.received_at)}</td>
                  <td class="right number nowrap">{duration(one.age_ms)}</td>
                  <td class="right number">{one.attempts || ""}</td>
                  <td class="right number nowrap">{bytes(one.bytes)}</td>
                  <td class="cut">{one.last_error?.detail ?? one.damaged ?? ""}</td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
        <Pager pages={pages} />
      </Panel>
      {open !== null && (
        <Dialog title={`Message ${open}`} wide onClose={() => setOpen(null)}>
          <MessageDetails destination={destination} sequence={open} actions={(message, again) =>
            !isGone(message) && !isLetter(message) && may(session, "operate")
              ? <CancelButton destination={destination} sequence={message.sequence} onDone={() => { again(); pages.again(); }} /> : null} />
        </Dialog>
      )}
    </>
  );
}

/** Finds one message. */
function Find({ session, destination, onFound }: { session: Session; destination: string; onFound: (sequence: number) => void }) {
  const [by, setBy] = useState("sequence");
  const [text, setText] = useState("");
  const [told, tell] = useState("");
  const { isBusy, error, run, setError } = useAction();
  const find = () => run(async () => {
    tell("");
    if (by === "sequence") return onFound(Number(text));
    if (by === "id") {
      const found = await ask(api.GET("/v1/destinations/{destination}/messages/by-id/{id}", { params: { path: { destination, id: text } } }));
      return onFound(found.sequence);
    }
    const gone = await ask(api.DELETE("/v1/destinations/{destination}/messages", { params: { path: { destination }, query: { idempotency_key: text } } }));
    tell(`Message ${gone.sequence} is now ${gone.state}.`);
  });
  const isValid = by === "sequence" ? /^\d+$/.test(text.trim()) : text !== "";
  return (
    <>
      <form class="filters" aria-label="Find a message" onSubmit={(event) => { event.preventDefault(); if (isValid) find(); }}>
        <label>Find by <select value={by} onChange={(event) => { setBy(event.currentTarget.value); setError(null); }}>
          <option value="sequence">sequence</option><option value="id">id</option>
          {may(session, "operate") && <option value="idempotency_key">idempotency key, and cancel it</option>}
        </select></label>
        <input aria-label="What to find" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <Button type="submit" kind={by === "idempotency_key" ? "danger" : "plain"} disabled={isBusy || !isValid}>{by === "idempotency_key" ? "Cancel the message" : "Show"}</Button>
      </form>
      <ErrorNotice error={error} />
      {told && <Notice kind="good">{told}</Notice>}
    </>
  );
}
