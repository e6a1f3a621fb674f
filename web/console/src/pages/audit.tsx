// The audit log: what operators did.
import { useState } from "preact/hooks";
import { api, ask } from "../api.ts";
import { instant, time } from "../format.ts";
import { LIMIT, Pager, usePages } from "../list.tsx";
import { href } from "../router.ts";
import { Button, Empty, Head, Panel, Table } from "../ui.tsx";

type Texts = Record<string, string>;

function query(texts: Texts) {
  const filters = {
    actor: texts.actor || undefined, action: texts.action || undefined, destination: texts.destination || undefined,
    from_time: instant(texts.from_time ?? ""), to_time: instant(texts.to_time ?? ""),
  };
  return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined));
}

export function AuditPage() {
  const [texts, setTexts] = useState<Texts>({});
  const [applied, apply] = useState(() => query({}));
  const set = (name: string) => (event: { currentTarget: { value: string } }) => {
    const { value } = event.currentTarget;
    setTexts((now) => ({ ...now, [name]: value }));
  };
  const pages = usePages((cursor) => ask(api.GET("/v1/audit", { params: { query: { ...applied, limit: LIMIT, cursor } as never } })), [applied]);
  return (
    <>
      <Head title="Audit" sub="What operators did, the newest first" />
      <form class="filters" aria-label="Filters" onSubmit={(event) => { event.preventDefault(); apply(query(texts)); }}>
        <label>Who <input value={texts.actor ?? ""} onInput={set("actor")} /></label>
        <label>Action <input value={texts.action ?? ""} onInput={set("action")} /></label>
        <label>Destination <input value={texts.destination ?? ""} onInput={set("destination")} /></label>
        <span class="pair">
          <label>Time from <input type="datetime-local" step="1" value={texts.from_time ?? ""} onInput={set("from_time")} /></label>
          <label>to <input type="datetime-local" step="1" value={texts.to_time ?? ""} onInput={set("to_time")} /></label>
        </span>
        <Button type="submit" kind="main">Filter</Button>
        <Button onClick={() => { setTexts({}); apply(query({})); }}>Clear</Button>
      </form>
      <Panel>
        {pages.items?.length === 0 ? <Empty>{pages.next ? "Nothing on this page matches. Continue with the next." : "Nothing in the audit log matches."}</Empty> : (
          <Table label="Audit">
            <thead><tr><th>Time</th><th>Who</th><th>From</th><th>Action</th><th>Destination</th><th>Target</th><th class="right">Affected</th><th>Outcome</th></tr></thead>
            <tbody>
              {pages.items?.map((one) => (
                <tr key={one.id}>
                  <td class="number nowrap">{time(one.occurred_at)}</td>
                  <td>{one.actor_name ?? one.actor}{one.actor_name && <> <code>{one.actor}</code></>}{one.certificate && <> <code>{one.certificate}</code></>}</td>
                  <td class="number nowrap">{one.address}</td>
                  <td><code>{one.action}</code>{one.dry_run && <span class="tag">dry run</span>}</td>
                  <td class="cut">{one.destination && <a href={href(["destinations", one.destination])}>{one.destination}</a>}</td>
                  <td class="cut"><code>{one.target}</code></td>
                  <td class="right number">{one.affected}</td>
                  <td>{["succeeded", "running"].includes(one.outcome) ? one.outcome : <span class="tag is-bad">{one.outcome}</span>}</td>
                </tr>
              ))}
            </tbody>
          </Table>
        )}
        <Pager pages={pages} />
      </Panel>
    </>
  );
}
