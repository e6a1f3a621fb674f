// One destination: its numbers, its definition, and what can be done with it.
import { useState } from "preact/hooks";
import { api, ask, may, type Destination, type Operation, type Session } from "../api.ts";
import { BulkDialog } from "../bulk.tsx";
import { DestinationEditor } from "../editor.tsx";
import { bytes, count } from "../format.ts";
import { go, href } from "../router.ts";
import { Button, Dialog, ErrorNotice, Field, Head, Legend, Notice, Panel, useAction, useLoad } from "../ui.tsx";
import { PARTS, PauseButton, pausedText } from "./destinations.tsx";
import { SendDialog } from "../send.tsx";

export function DestinationPage({ session, destination }: { session: Session; destination: string }) {
  const path = { params: { path: { destination } } };
  const definition = useLoad(() => ask(api.GET("/v1/destinations/{destination}", path)), [destination]);
  const stats = useLoad(() => ask(api.GET("/v1/destinations/{destination}/stats", path)), [destination]);
  const [dialog, setDialog] = useState<"" | "edit" | "purge" | "repair" | "remove" | "send">("");
  const close = () => {
    setDialog("");
    definition.again();
    stats.again();
  };
  const found = definition.value as Destination | null;
  const bulk = (call: Promise<{ data?: unknown; error?: unknown; response: Response }>) => ask(call) as Promise<Operation>;
  const header = (isDryRun: boolean) => (isDryRun ? {} : { headers: { prefer: "respond-async" } });
  return (
    <>
      <Head title={destination} sub={found ? `${found.url} · version ${found.version} · partition ${found.partition}` : definition.error ? "" : "…"}>
        {may(session, "ingest") && <Button onClick={() => setDialog("send")}>Send a message</Button>}
        {may(session, "admin") && found && <Button kind="main" onClick={() => setDialog("edit")} disabled={found.defined_in_file}>Change</Button>}
      </Head>
      <ErrorNotice error={definition.error} />
      {found && pausedText(found.paused) && <Notice kind="info">{pausedText(found.paused)}</Notice>}
      {found?.defined_in_file && <Notice kind="info">This destination belongs to the configuration file. Change it there.</Notice>}
      {stats.value && (
        <Panel title="Numbers" tools={<Button onClick={stats.again}>Read again</Button>}>
          <Legend counts={stats.value} />
          <dl class="fields is-wide">
            <div><dt>Pending</dt><dd class="number">{count(stats.value.pending)} <span class="muted">{bytes(stats.value.pending_bytes)}</span></dd></div>
            <div><dt>Last sequence</dt><dd class="number">{count(stats.value.last_sequence)}</dd></div>
            <div><dt>Delivered</dt><dd class="number">{count(stats.value.delivered_total)}</dd></div>
            <div><dt>Dropped</dt><dd class="number">{count(stats.value.dropped_total)}</dd></div>
            <div><dt>Cancelled</dt><dd class="number">{count(stats.value.cancelled_total)}</dd></div>
            <div><dt>Dead letters</dt><dd class="number">{count(stats.value.dead_letters)} <span class="muted">of {count(stats.value.dead_lettered_total)} ever</span></dd></div>
          </dl>
          <p class="links">
            <a href={href(["lanes", destination], { key: found?.ordering === "key" ? stats.value.head?.key ?? undefined : undefined })}>Lane</a>
            <a href={href(["messages", destination])}>Messages</a>
            <a href={href(["dead-letters", destination])}>Dead letters</a>
            <a href={href(["history", destination])}>History</a>
            <a href={href(["operations", destination])}>Operations</a>
          </p>
        </Panel>
      )}
      {found && may(session, "operate") && (
        <Panel title="Intervene">
          <div class="actions">
            <PauseButton name={destination} paused={found.paused} onDone={definition.again} />
            <Button disabled={!PARTS.every((part) => found.paused[part])} title="Pause ingest, processing and delivery first"
              onClick={() => setDialog("repair")}>Repair inconsistent data</Button>
            <Button kind="danger" onClick={() => setDialog("purge")}>Purge pending messages</Button>
            {may(session, "admin") && !found.defined_in_file && <Button kind="danger" onClick={() => setDialog("remove")}>Remove the destination</Button>}
          </div>
        </Panel>
      )}
      {found && <Panel title="Definition"><Definition value={found} /></Panel>}
      {dialog === "edit" && found && <DestinationEditor destination={found} onClose={close} />}
      {dialog === "send" && <SendDialog destination={destination} onClose={close} />}
      {dialog === "purge" && (
        <BulkDialog title={`Purge ${destination}`} verb="Cancel" danger explain="All messages that are pending now leave without delivery."
          run={(isDryRun) => bulk(api.POST("/v1/destinations/{destination}/purge", { ...path, ...header(isDryRun), body: { dry_run: isDryRun } }))} onClose={close} />
      )}
      {dialog === "repair" && (
        <BulkDialog title={`Repair ${destination}`} verb="Repair" explain="Compares the records of the destination in Redis with what is derived from them. First it only counts the problems."
          run={(isDryRun) => bulk(api.POST("/v1/destinations/{destination}/repair", { ...path, ...header(isDryRun), body: { dry_run: isDryRun } }))} onClose={close} />
      )}
      {dialog === "remove" && stats.value && <RemoveDialog name={destination} held={stats.value.pending + stats.value.dead_letters} onClose={close} />}
    </>
  );
}

function Definition({ value }: { value: object }) {
  return (
    <dl class="fields is-wide">
      {Object.entries(value).filter(([name]) => name !== "paused").map(([name, one]) => (
        <div key={name} class={one && typeof one === "object" && !Array.isArray(one) ? "is-group" : ""}>
          <dt>{name}</dt>
          <dd>{one && typeof one === "object" && !Array.isArray(one) ? <Definition value={one} /> : <code>{Array.isArray(one) ? one.join(", ") : one == null ? "–" : String(one)}</code>}</dd>
        </div>
      ))}
    </dl>
  );
}

function RemoveDialog({ name, held, onClose }: { name: string; held: number; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const { isBusy, error, run } = useAction();
  const remove = () => run(async () => {
    await ask(api.DELETE("/v1/destinations/{destination}", { params: { path: { destination: name }, query: held ? { force: true } : {} } as never }));
    go(href(["destinations"]));
  });
  return (
    <Dialog title={`Remove ${name}?`} onClose={onClose}>
      <p>{held ? <><b>{count(held)}</b> pending messages and dead letters are removed too, and not delivered.</> : "Nothing is pending."}</p>
      <Field label={`Type ${name} to confirm`}><input value={typed} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} /></Field>
      <ErrorNotice error={error} />
      <div class="actions is-end">
        <Button onClick={onClose}>Keep it</Button>
        <Button kind="danger" disabled={isBusy || typed !== name} onClick={remove}>Remove {name}</Button>
      </div>
    </Dialog>
  );
}
