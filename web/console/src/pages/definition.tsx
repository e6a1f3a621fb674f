// The definition of a destination.
import { useState } from "preact/hooks";
import { api, ask, may, type Destination } from "../api.ts";
import { DestinationEditor, isSame, useParts, valuesOf } from "../editor.tsx";
import { count, setting } from "../format.ts";
import { go, href, tab } from "../router.ts";
import { isShard, wholeOf } from "../shards.tsx";
import { Button, Dialog, ErrorNotice, Field, Panel, Table, TabHead, useAction } from "../ui.tsx";
import type { TabProps } from "./destination.tsx";

export function DefinitionTab({ session, destination, definition, numbers, onChanged }: TabProps) {
  const [dialog, setDialog] = useState<"" | "edit" | "remove">("");
  const close = () => {
    setDialog("");
    onChanged();
  };
  const canChange = may(session, "admin") && !definition.defined_in_file && !isShard(destination);
  return (
    <>
      <TabHead sub={isShard(destination) ? <>Each shard has the definition of <a href={tab(wholeOf(destination), "definition")}>{wholeOf(destination)}</a>. Change it there.</> : definition.defined_in_file ? "This destination belongs to the configuration file. Change it there." : "What the service does with its messages"}>
        {canChange && <Button kind="main" onClick={() => setDialog("edit")}>Change</Button>}
        {canChange && <Button kind="danger" disabled={!numbers} onClick={() => setDialog("remove")}>Remove the destination</Button>}
      </TabHead>
      <Definition value={definition} />
      {dialog === "edit" && <DestinationEditor destination={definition} onClose={close} />}
      {dialog === "remove" && numbers && <RemoveDialog name={destination} held={numbers.pending + numbers.dead_letters} onClose={close} />}
    </>
  );
}

function Definition({ value }: { value: Destination }) {
  const { parts, error } = useParts();
  const all = valuesOf(parts, value);
  const differing = all.filter((one) => !isSame(one.value, one.standard));
  return (
    <>
      <ErrorNotice error={error} />
      <Panel title="Differs from the default">{parts.length > 0 && <Values label="Differs from the default" all={differing} />}</Panel>
      <Panel title="All fields">
        <details><summary>{count(all.length)} fields</summary><Values label="All fields" all={all} /></details>
      </Panel>
    </>
  );
}

function Values({ label, all }: { label: string; all: ReturnType<typeof valuesOf> }) {
  return (
    <Table label={label}>
      <thead><tr><th>Field</th><th>Value</th><th>Default</th><th>Meaning</th></tr></thead>
      <tbody>
        {all.map((one) => (
          <tr key={one.name} class={isSame(one.value, one.standard) ? "" : "is-mild"}>
            <td><code>{one.name}</code></td>
            <td class="error-cell"><b>{setting(one.name, one.value)}</b></td>
            <td class="muted">{setting(one.name, one.standard)}</td>
            <td class="error-cell muted">{one.hint.replaceAll("`", "")}</td>
          </tr>
        ))}
      </tbody>
    </Table>
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
