// The choice of a destination, for the pages that show one.
import { useEffect, useState } from "preact/hooks";
import { count } from "../format.ts";
import { useLive } from "../live.ts";
import { href } from "../router.ts";
import { Bar, Empty, Head, Notice, Panel } from "../ui.tsx";
import type { Row } from "./destinations.tsx";

export function ChooseDestination({ page, title }: { page: string; title: string }) {
  const [search, setSearch] = useState("");
  const [wanted, setWanted] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setWanted(search.trim().toLowerCase()), 250);
    return () => clearTimeout(timer);
  }, [search]);
  const { value, error } = useLive<{ rows: Row[]; matching: number }>({ view: "destinations", sort: page === "dead-letters" ? "dead_letters" : "pending", search: wanted || undefined });
  const max = Math.max(1, ...(value?.rows ?? []).map((row) => row.counts?.pending ?? 0));
  return (
    <>
      <Head title={title} sub="Choose a destination" />
      {error && <Notice>{error}</Notice>}
      <div class="filters"><label>Name contains <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></label></div>
      <Panel>
        {value?.rows.length === 0 && <Empty>There is no such destination.</Empty>}
        <ul class="choices">
          {value?.rows.map((row) => (
            <li key={row.name}>
              <a href={href([page, row.name], { key: page === "lanes" && row.ordering === "key" ? row.head?.key ?? undefined : undefined })}>
                <span>{row.name}</span>
                {row.counts && <Bar counts={row.counts} max={max} />}
                <span class="muted number">{page === "dead-letters" ? `${count(row.counts?.dead_letters)} dead letters` : `${count(row.counts?.pending)} pending`}</span>
              </a>
            </li>
          ))}
        </ul>
        {value && value.matching > value.rows.length && <p class="muted">and {count(value.matching - value.rows.length)} more</p>}
      </Panel>
    </>
  );
}
