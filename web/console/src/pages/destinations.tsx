// All destinations: what waits there, and for how long.
import { useEffect, useState } from "preact/hooks";
import { api, ask, may, type Session } from "../api.ts";
import { causesOf, Cause, errorOf, isMild, needy, type Attention, type Needy } from "../attention.tsx";
import { LiveSign } from "../app.tsx";
import { count, duration, failureText, percent, rate } from "../format.ts";
import { useLive, usePoll } from "../live.ts";
import { go, href, tab } from "../router.ts";
import { Bar, Button, Empty, ErrorNotice, Head, Panel, Table, useAction, type Counted } from "../ui.tsx";
import { DestinationEditor } from "../editor.tsx";

export interface Row {
  name: string;
  ordering: string;
  transform: string;
  paused: Paused;
  counts?: Record<Counted | "pending" | "dead_letters" | "delivered_total", number> & { is_damaged: boolean };
  in_per_second: number;
  out_per_second: number;
  head: { sequence: number; state: string; age_ms: number; blocked_by: string; key: string | null; attempts: number; last_error?: { status?: number | null; detail: string } | null } | null;
  error_rate: number | null;
}
interface Rows {
  matching: number; all: number; page: number; pages: number; rows: Row[];
}

/** How often to ask which destinations need attention, and for how many of them. */
const EVERY_MS = 5000;
const TOLD_MAX = 1000;

const toneOf = (found: Attention[]) => (found.length === 0 ? "" : found.every((one) => isMild(one.cause)) ? "is-mild" : "is-bad");

export const PARTS = ["ingest", "processing", "delivery"] as const;
type Part = (typeof PARTS)[number];
export type Paused = Record<Part, boolean>;

export function PauseButton({ name, paused, onDone }: { name: string; paused: Paused; onDone?: () => void }) {
  const { isBusy, error, run } = useAction();
  const path = { params: { path: { destination: name } } };
  const set = (what: Part, isPaused: boolean) => run(async () => {
    await ask(isPaused
      ? api.POST("/v1/destinations/{destination}/resume", { ...path, body: { what } })
      : api.POST("/v1/destinations/{destination}/pause", { ...path, body: { what } }));
    onDone?.();
  });
  return (
    <>
      {PARTS.map((part) => (
        <Button key={part} disabled={isBusy} onClick={() => set(part, paused[part])}>{paused[part] ? "Resume" : "Pause"} {part}</Button>
      ))}
      <ErrorNotice error={error} />
    </>
  );
}

/** What is wrong with a destination: as the service says, or what its row shows before that. */
export function healthOf({ counts, head, paused }: Row, told: Attention[] = []): Attention[] {
  if (told.length) return told;
  const one = (cause: string, number = 0): Attention[] => [{ cause, count: number, since: null, error: failureText(head?.last_error) ?? null }];
  if (!counts || counts.is_damaged) return one("damaged");
  if (counts.halted) return one("halted", counts.halted);
  if (head && head.attempts > 0 && !paused.delivery) return one("retrying");
  return pausedText(paused) && counts.pending ? one("paused", counts.pending) : [];
}

function Health({ row, told }: { row: Row; told?: Attention[] }) {
  const found = healthOf(row, told);
  const [error] = found.map((one) => errorOf({ name: row.name, head: row.head as Needy["head"] }, one)).filter(Boolean);
  if (found.length === 0) return <span class={row.counts?.pending ? "chip is-well" : "muted"}>{row.counts?.pending ? "well" : "idle"}</span>;
  return <>{found.map((one) => <Cause key={one.cause} one={one} />)}{error && <span class="why-cut muted">{error}</span>}</>;
}

export const pausedText = (paused: Paused) =>
  PARTS.filter((part) => paused[part]).map((part) => `${part} paused`).join(", ");

export function DestinationsPage({ session, query }: { session: Session; query: URLSearchParams }) {
  const [search, setSearch] = useState(query.get("search") ?? "");
  const [wanted, setWanted] = useState(search);
  const [sort, setSort] = useState("name");
  const [page, setPage] = useState(0);
  const [isNew, setNew] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setWanted(search.trim().toLowerCase()), 250);
    return () => clearTimeout(timer);
  }, [search]);
  const live = useLive<Rows>({ view: "destinations", search: wanted || undefined, sort, page });
  const now = live.value;
  const attention = usePoll(() => needy(TOLD_MAX, false), EVERY_MS, []);
  const told = new Map((attention.value?.items ?? []).map((one) => [one.name, causesOf(one)]));
  const max = Math.max(1, ...(now?.rows ?? []).map((row) => row.counts?.pending ?? 0));
  return (
    <>
      <Head title="Destinations" sub={now ? `${count(now.matching)}${now.matching === now.all ? "" : ` of ${count(now.all)}`}` : "…"}>
        <LiveSign live={live} />
        {may(session, "admin") && <Button kind="main" onClick={() => setNew(true)}>New destination</Button>}
      </Head>
      {isNew && <DestinationEditor onClose={(name) => { setNew(false); if (name) go(href(["destinations", name])); }} />}
      <ErrorNotice error={live.error ?? attention.error} />
      <div class="filters">
        <label>Name contains <input type="search" value={search} onInput={(event) => { setSearch(event.currentTarget.value); setPage(0); }} /></label>
        <label>First{" "}
          <select value={sort} onChange={(event) => { setSort(event.currentTarget.value); setPage(0); }}>
            <option value="name">by name</option>
            <option value="pending">most pending</option>
            <option value="halted">most halted</option>
            <option value="dead_letters">most dead letters</option>
            <option value="in">most in per second</option>
            <option value="out">most out per second</option>
          </select>
        </label>
      </div>
      <Panel>
        {now && now.rows.length === 0 ? <Empty>{now.all === 0 ? "There is no destination yet." : "No destination has this text in its name."}</Empty> : (
          <Table label="Destinations">
            <thead>
              <tr>
                <th>Destination</th><th class="wide-column">Pending by state</th><th class="right">Pending</th><th>Health</th><th class="right">Head age</th>
                <th class="right">In / s</th><th class="right">Out / s</th><th class="right">Errors</th><th class="right">Dead letters</th><th>Lane</th>
              </tr>
            </thead>
            <tbody>
              {now?.rows.map((row) => (
                <tr key={row.name} class={toneOf(healthOf(row, told.get(row.name)))}>
                  <td>
                    <a href={href(["destinations", row.name])}>{row.name}</a>
                    {pausedText(row.paused) && <span class="tag">{pausedText(row.paused)}</span>}
                  </td>
                  <td class="wide-column">{row.counts && <Bar counts={row.counts} max={max} />}</td>
                  <td class="right number">{count(row.counts?.pending)}</td>
                  <td class="is-plain"><Health row={row} told={told.get(row.name)} /></td>
                  <td class="right number">{row.head ? duration(row.head.age_ms) : ""}</td>
                  <td class="right number is-extra">{rate(row.in_per_second)}</td>
                  <td class="right number is-extra">{rate(row.out_per_second)}</td>
                  <td class="right number is-extra">{percent(row.error_rate)}</td>
                  <td class="right number">{row.counts?.dead_letters ? <a href={tab(row.name, "dead-letters")}>{count(row.counts.dead_letters)}</a> : ""}</td>
                  <td class="is-extra"><a href={tab(row.name, "lane", { key: row.ordering === "key" ? row.head?.key ?? undefined : undefined })} aria-label={`Show the lane of ${row.name}`}>Show</a></td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
        {now && now.pages > 1 && (
          <nav class="pager" aria-label="Pages of the list">
            <Button disabled={now.page === 0} onClick={() => setPage(now.page - 1)}>Previous</Button>
            <span class="number">Page {now.page + 1} of {now.pages}</span>
            <Button disabled={now.page + 1 >= now.pages} onClick={() => setPage(now.page + 1)}>Next</Button>
          </nav>
        )}
      </Panel>
      <p class="muted small">Errors: the part of the attempts of the last 50 messages that failed.</p>
    </>
  );
}
