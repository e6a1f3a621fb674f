// Finds destinations by name, messages by id, sequence or key, and lanes by key.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, Refused, type Destination, type Gone, type Message, type Pending } from "../api.ts";
import { count, laneName, many } from "../format.ts";
import { href, tab } from "../router.ts";
import { shardsOf, wholeOf } from "../shards.tsx";
import { isGone, showMessage, StateChip } from "../message.tsx";
import { Button, Empty, ErrorNotice, Head, Notice, Panel, Table, useAction } from "../ui.tsx";

/** The most destinations that are searched, how many at the same time, and how many names are listed. */
const SEARCHED_MAX = 1000;
const AT_ONCE = 6;
const NAMES_MAX = 50;

interface Found {
  destination: string;
  by: "id" | "key" | "sequence";
  message: Message;
}

/** All destinations, up to a maximum: that of the address first, then those with the text in their name. */
async function listed(text: string, first: string | undefined) {
  const all: Destination[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask(api.GET("/v1/destinations", { params: { query: { limit: 1000, cursor } } }));
    all.push(...(page.items as Destination[]));
    cursor = page.next_cursor ?? undefined;
  } while (cursor);
  const named = all.filter((one) => one.name.includes(text.toLowerCase()));
  const rank = (one: Destination) => (one.name === (first && wholeOf(first)) ? 0 : one.name.includes(text.toLowerCase()) ? 1 : 2);
  return { named, all: all.sort((a, b) => rank(a) - rank(b)) };
}

/** What one destination holds under this text, and what prevented the search. A message that it does not know is no error. With `here`, it is
 *  that of the page, which may be of a shard. */
async function findIn(one: Destination, text: string, here: string | undefined): Promise<{ some: Found[]; why?: string }> {
  const { name: destination } = one;
  let why: string | undefined;
  const none = (caught: unknown) => {
    const { status = 0 } = caught instanceof Refused ? caught.problem : {};
    if (status < 400 || status >= 500 || status === 429) why = (caught as Error).message;
    return null;
  };
  const query = { key: text, limit: 1 };
  const [byId, pending, gone, bySequence] = await Promise.all([
    one.ids_max ? ask(api.GET("/v1/destinations/{destination}/messages/by-id/{id}", { params: { path: { destination, id: text } } })).catch(none) : null,
    ask(api.GET("/v1/destinations/{destination}/messages", { params: { path: { destination }, query } })).catch(none),
    one.log_max ? ask(api.GET("/v1/destinations/{destination}/log", { params: { path: { destination }, query } })).catch(none) : null,
    here && shardsOf(here, one) === 1 && /^\d{1,15}$/.test(text) ? showMessage(here, Number(text)).catch(none) : null,
  ]);
  const found: Found[] = [];
  if (byId) found.push({ destination: byId.shard ?? destination, by: "id", message: byId as Message });
  if (bySequence) found.push({ destination: here!, by: "sequence", message: bySequence });
  const [first] = pending?.items ?? [];
  if (first) found.push({ destination: first.shard ?? destination, by: "key", message: first as Pending });
  const [last] = gone?.items ?? [];
  if (!first && last && "latency" in last) found.push({ destination: last.shard ?? destination, by: "key", message: last as Gone });
  return { some: found, why };
}

export function SearchPage({ text, first }: { text: string; first: string | undefined }) {
  const [found, setFound] = useState<Found[]>([]);
  const [names, setNames] = useState<string[] | null>(null);
  const [progress, setProgress] = useState({ searched: 0, all: 0, withoutIds: 0, left: 0, failed: 0, why: "" });
  const { isBusy, error, run } = useAction();
  const isWanted = useRef(true);
  useEffect(() => {
    isWanted.current = true;
    run(async () => {
      const { named, all } = await listed(text, first);
      setNames(named.map((one) => one.name));
      const searched = all.slice(0, SEARCHED_MAX);
      setProgress({ searched: 0, all: searched.length, withoutIds: searched.filter((one) => !one.ids_max).length, left: all.length - searched.length, failed: 0, why: "" });
      const queue = [...searched];
      const next = async () => {
        for (let one = queue.shift(); one && isWanted.current; one = queue.shift()) {
          const { some, why } = await findIn(one, text, first && one.name === wholeOf(first) ? first : undefined);
          if (some.length) setFound((now) => [...now, ...some]);
          setProgress((now) => ({ ...now, searched: now.searched + 1, ...(why ? { failed: now.failed + 1, why } : {}) }));
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, next));
    });
    return () => { isWanted.current = false; };
  }, []);
  const { searched, all, withoutIds, left, failed, why } = progress;
  const isDone = names !== null && !isBusy;
  const answered = searched - failed;
  return (
    <>
      <Head title={<>Search: {text}</>} sub={isBusy ? `Searched ${count(searched)} of ${many(all, "destination")} …` : isDone ? `Searched ${answered < all ? `${count(answered)} of ` : ""}${many(all, "destination")}` : ""}>
        {isBusy && <Button onClick={() => { isWanted.current = false; }}>Stop</Button>}
      </Head>
      <ErrorNotice error={error} />
      {failed > 0 && <Notice>{count(failed)} of {many(all, "destination")} could not be searched: {why}</Notice>}
      <Panel title="Messages and lanes">
        {found.length === 0 ? <Empty>{!isDone && !error ? "…" : error || (answered === 0 && all > 0) ? "Nothing was searched." : `No message has this id or key${answered < all ? " in the destinations that were searched" : ""}.`}</Empty> : (
          <Table label="Messages and lanes">
            <thead><tr><th>Message</th><th>Destination</th><th>Found by</th><th>State</th><th>Id</th><th>Key</th></tr></thead>
            <tbody>
              {found.map(({ destination, by, message }) => (
                <tr key={`${destination}/${by}/${message.sequence}`}>
                  <td><a class="number" href={tab(destination, "messages", {}, message.sequence)}>{message.sequence}</a>{by === "key" && <span class="muted">{isGone(message) ? " the last" : " the first"}</span>}</td>
                  <td><a href={href(["destinations", destination])}>{destination}</a></td>
                  <td>{by}</td>
                  <td><StateChip message={message} /></td>
                  <td class="cut"><code>{message.id}</code></td>
                  <td>{message.key != null && <>{laneName(message.key)}: <a href={tab(destination, "lane", { key: message.key })}>lane</a>, <a href={tab(destination, "history", { key: message.key })}>history</a></>}</td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
        {withoutIds > 0 && <p class="muted small">{count(withoutIds)} of the destinations do not remember ids: set <code>ids_max</code> there to find their messages by id.</p>}
        {left > 0 && <p class="muted small">{count(left)} more destinations were not searched. Search from the page of a destination: that one comes first.</p>}
      </Panel>
      <Panel title="Destinations">
        {isDone && names.length === 0 && <Empty>No destination has this text in its name.</Empty>}
        <ul class="checks">{names?.slice(0, NAMES_MAX).map((name) => <li key={name}><a href={href(["destinations", name])}>{name}</a></li>)}</ul>
        {names && names.length > NAMES_MAX && <p><a href={href(["destinations"], { search: text })}>All {count(names.length)}</a></p>}
      </Panel>
    </>
  );
}
