// Lists of messages with filters, which Reseq applies. A page of the API can hold fewer items than asked for.
import { useState } from "preact/hooks";
import { Button, ErrorNotice, useLoad } from "./ui.tsx";
import { instant } from "./format.ts";

export const LIMIT = 50;

export interface Filters {
  key?: string; state?: string; from_sequence?: number; to_sequence?: number; from_time?: string; to_time?: string; error?: string; stage?: string;
}
export type FilterName = "key" | "state" | "sequence" | "time" | "error" | "stage";

/** The fields of the filters, and what they hold once they are applied. */
export function useFilters(start: URLSearchParams) {
  const key = start.get("key");
  const first: Record<string, string> = key === null ? {} : { key, has_key: "yes" };
  const [texts, setTexts] = useState<Record<string, string>>(first);
  const [applied, setApplied] = useState<Filters>(() => read(first));
  return { texts, setTexts, applied, apply: () => setApplied(read(texts)), clear: () => { setTexts({}); setApplied({}); } };
}

function read(texts: Record<string, string>): Filters {
  const number = (text: string | undefined) => (text && /^\d+$/.test(text.trim()) ? Number(text) : undefined);
  const filters: Filters = {
    key: texts.has_key === "yes" ? texts.key ?? "" : undefined, state: texts.state || undefined, stage: texts.stage || undefined,
    from_sequence: number(texts.from_sequence), to_sequence: number(texts.to_sequence),
    from_time: instant(texts.from_time ?? ""), to_time: instant(texts.to_time ?? ""), error: texts.error || undefined,
  };
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined));
}

/** With several shards nothing is filtered by sequence: each counts its own. */
export function FilterForm({ filters, names, states = [], shards }: { filters: ReturnType<typeof useFilters>; names: FilterName[]; states?: string[]; shards: number }) {
  const { texts, setTexts } = filters;
  const set = (name: string) => (event: { currentTarget: { value: string } }) => {
    const { value } = event.currentTarget;
    setTexts((now) => ({ ...now, [name]: value, ...(name === "key" ? { has_key: "yes" } : {}) }));
  };
  const has = (name: FilterName) => names.includes(name) && (name !== "sequence" || shards === 1);
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => { event.preventDefault(); filters.apply(); }}>
      {has("state") && (
        <label>State <select value={texts.state ?? ""} onChange={set("state")}>
          <option value="">all</option>{states.map((state) => <option key={state} value={state}>{state.replace("_", "-")}</option>)}
        </select></label>
      )}
      {has("stage") && (
        <label>Stage <select value={texts.stage ?? ""} onChange={set("stage")}>
          <option value="">all</option><option value="transform">transform</option><option value="delivery">delivery</option>
        </select></label>
      )}
      {has("key") && (
        <span class="pair">
          <label>Key <select value={texts.has_key ?? ""} onChange={set("has_key")}><option value="">any</option><option value="yes">is</option></select></label>
          {texts.has_key === "yes" && <input aria-label="Key (empty: without a key)" placeholder="without a key" value={texts.key ?? ""} onInput={set("key")} />}
        </span>
      )}
      {has("sequence") && (
        <span class="pair">
          <label>Sequence from <input class="short" inputMode="numeric" value={texts.from_sequence ?? ""} onInput={set("from_sequence")} /></label>
          <label>to <input class="short" inputMode="numeric" value={texts.to_sequence ?? ""} onInput={set("to_sequence")} /></label>
        </span>
      )}
      {has("time") && (
        <span class="pair">
          <label>Time from <input type="datetime-local" step="1" value={texts.from_time ?? ""} onInput={set("from_time")} /></label>
          <label>to <input type="datetime-local" step="1" value={texts.to_time ?? ""} onInput={set("to_time")} /></label>
        </span>
      )}
      {has("error") && <label>Error contains <input value={texts.error ?? ""} onInput={set("error")} /></label>}
      <Button type="submit" kind="main">Filter</Button>
      <Button onClick={filters.clear}>Clear</Button>
    </form>
  );
}

interface Page<T> {
  items: T[];
  next_cursor?: string | null;
}

/** The pages of a list. */
export function usePages<T>(load: (cursor: string | undefined) => Promise<Page<T>>, inputs: unknown[]) {
  const [cursors, setCursors] = useState<{ of: string; all: (string | undefined)[] }>({ of: "", all: [undefined] });
  const of = JSON.stringify(inputs);
  const all = cursors.of === of ? cursors.all : [undefined];
  const page = useLoad(() => load(all.at(-1)), [of, all.length]);
  const next = page.value?.next_cursor;
  return {
    ...page,
    items: page.value?.items ?? null,
    number: all.length,
    previous: all.length > 1 ? () => setCursors({ of, all: all.slice(0, -1) }) : undefined,
    next: next ? () => setCursors({ of, all: [...all, next] }) : undefined,
  };
}

export function Pager({ pages }: { pages: ReturnType<typeof usePages<unknown>> }) {
  return (
    <>
      <ErrorNotice error={pages.error} />
      <nav class="pager" aria-label="Pages of the list">
        <Button disabled={!pages.previous || pages.isBusy} onClick={() => pages.previous?.()}>Previous</Button>
        <span class="number" role="status">Page {pages.number}{pages.isBusy ? ", reading …" : ""}</span>
        <Button disabled={!pages.next || pages.isBusy} onClick={() => pages.next?.()}>Next</Button>
        <Button disabled={pages.isBusy} onClick={pages.again}>Read again</Button>
      </nav>
    </>
  );
}
