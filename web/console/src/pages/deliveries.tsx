// Deliveries as they happen, like `reseq tail`.
import { useEffect, useState } from "preact/hooks";
import { Refused, signed, signedOut, type Failure } from "../api.ts";
import { ErrorText } from "../failures.tsx";
import { count, duration, failureText, laneName, time } from "../format.ts";
import { lines } from "../lines.ts";
import { usePoll } from "../live.ts";
import { href, tab } from "../router.ts";
import { Button, Empty, ErrorNotice, Head, Panel, Table } from "../ui.tsx";

/** The deliveries that stay on the page. */
const SHOWN_MAX = 200;
/** How often to ask whether Redis answers. */
const READY_MS = 3000;

interface Delivered {
  type: "delivery";
  destination: string;
  key: string | null;
  epoch: number;
  sequence: number;
  outcome: "accepted" | "refused";
  attempt: number;
  batch: number;
  took_ms: number;
  age_ms: number;
  occurred_at: string;
  error?: Failure;
}
type Line = Delivered | { type: "listening" } | { type: "missed"; count: number };
type Wanted = { destination?: string; key?: string; outcome?: string };

/** Follows the deliveries until the signal comes. The answer ends after a minute, and is asked for again. */
async function follow(wanted: Wanted, signal: AbortSignal, take: (some: Line[]) => void) {
  const search = new URLSearchParams(Object.entries(wanted).filter((pair): pair is [string, string] => pair[1] !== undefined));
  while (!signal.aborted) {
    const answer = await signed(`/v1/deliveries?${search}`, { signal });
    if (answer.status === 401) signedOut();
    if (!answer.ok || !answer.body) throw new Refused(await answer.json());
    for await (const some of lines(answer.body)) take(some.map((text) => JSON.parse(text) as Line));
  }
}

export function DeliveriesPage({ destination }: { destination: string }) {
  const [texts, setTexts] = useState<Record<string, string>>({ destination });
  const [wanted, setWanted] = useState<Wanted>({ destination: destination || undefined });
  const [isPaused, pause] = useState(false);
  const [isListening, setListening] = useState(false);
  const [missed, setMissed] = useState(0);
  const [rows, setRows] = useState<Delivered[]>([]);
  const [error, setError] = useState<unknown>(null);
  const set = (name: string) => (event: { currentTarget: { value: string } }) => {
    const { value } = event.currentTarget;
    setTexts((now) => ({ ...now, [name]: value }));
  };
  useEffect(() => {
    if (isPaused) return;
    const stop = new AbortController();
    const take = (some: Line[]) => {
      if (some.some((one) => one.type === "listening")) {
        setListening(true);
        setError(null);
      }
      const fresh = some.filter((one): one is Delivered => one.type === "delivery");
      setMissed((now) => some.reduce((sum, one) => sum + (one.type === "missed" ? one.count : 0), now));
      if (fresh.length) setRows((now) => [...fresh.reverse(), ...now].slice(0, SHOWN_MAX));
    };
    setError(null);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const open = () => follow(wanted, stop.signal, take).catch((caught) => {
      if (stop.signal.aborted) return;
      setListening(false);
      setError(caught instanceof Refused ? caught : "Reseq does not answer. Is the process running?");
      timer = setTimeout(open, READY_MS);
    });
    open();
    return () => {
      stop.abort();
      clearTimeout(timer);
      setListening(false);
    };
  }, [wanted, isPaused]);
  // Without Redis nothing is delivered, and the stream stays open.
  const ready = usePoll(async () => {
    const answer = await fetch("/readyz");
    return answer.ok ? "" : (await answer.text()).replace(/^\w+: /, "");
  }, READY_MS, []);
  const [text, name] = !isPaused && (ready.value || error) ? ["not current", "is-bad"] : isListening ? ["live", "is-on"] : isPaused ? ["paused", "is-off"] : ["connecting", "is-off"];
  return (
    <>
      <Head title="Deliveries" sub="As they happen, the newest first">
        <span class={`live ${name}`} role="status"><span aria-hidden="true" />{text}</span>
        <Button onClick={() => pause(!isPaused)}>{isPaused ? "Continue" : "Pause the page"}</Button>
      </Head>
      <form class="filters" aria-label="Filters" onSubmit={(event) => {
        event.preventDefault();
        setRows([]);
        setWanted({ destination: texts.destination || undefined, key: texts.has_key === "yes" ? texts.key ?? "" : undefined, outcome: texts.outcome || undefined });
      }}>
        <label>Destination <input value={texts.destination ?? ""} onInput={set("destination")} /></label>
        <span class="pair">
          <label>Key <select value={texts.has_key ?? ""} onChange={set("has_key")}><option value="">any</option><option value="yes">is</option></select></label>
          {texts.has_key === "yes" && <input aria-label="Key (empty: without a key)" placeholder="without a key" value={texts.key ?? ""} onInput={set("key")} />}
        </span>
        <label>Outcome <select value={texts.outcome ?? ""} onChange={set("outcome")}>
          <option value="">any</option><option value="accepted">accepted</option><option value="refused">refused</option>
        </select></label>
        <Button type="submit" kind="main">Filter</Button>
      </form>
      <ErrorNotice error={ready.value || error} />
      <Panel title="Deliveries" tools={missed > 0 && <span class="muted">{count(missed)} more were too many to show</span>}>
        {rows.length === 0 ? <Empty>{isListening ? "Nothing has been delivered since you opened the page." : "…"}</Empty> : (
          <Table label="Deliveries">
            <thead><tr><th>Time</th><th>Destination</th><th>Key</th><th class="right">Sequence</th><th>Outcome</th><th class="right">Attempt</th><th class="right">Request took</th><th class="right">Since arrival</th><th>Error</th></tr></thead>
            <tbody>
              {rows.map((one) => (
                <tr key={`${one.destination} ${one.epoch} ${one.sequence} ${one.attempt}`}>
                  <td class="number nowrap">{time(one.occurred_at)}</td>
                  <td class="cut"><a href={href(["destinations", one.destination])}>{one.destination}</a></td>
                  <td class="cut">{one.key !== null && <a href={tab(one.destination, "lane", { key: one.key })}>{laneName(one.key)}</a>}</td>
                  <td class="right"><a class="number" href={tab(one.destination, "messages", {}, one.sequence)}>{one.sequence}</a></td>
                  <td>{one.outcome === "accepted" ? one.outcome : <span class="tag is-bad">{one.outcome}</span>}{one.batch > 1 && <span class="tag">batch of {count(one.batch)}</span>}</td>
                  <td class="right number">{one.attempt}</td>
                  <td class="right number">{duration(one.took_ms)}</td>
                  <td class="right number">{duration(one.age_ms)}</td>
                  <td class="error-cell"><ErrorText text={failureText(one.error)} /></td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
      </Panel>
    </>
  );
}
