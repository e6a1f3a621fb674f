// The definition of a destination.
import { useState } from "preact/hooks";
import { api, ask, may } from "../api.ts";
import { DestinationEditor } from "../editor.tsx";
import { count } from "../format.ts";
import { go, href } from "../router.ts";
import { Button, Dialog, ErrorNotice, Field, Panel, TabHead, useAction } from "../ui.tsx";
import type { TabProps } from "./destination.tsx";

export function DefinitionTab({ session, destination, definition, numbers, onChanged }: TabProps) {
  const [dialog, setDialog] = useState<"" | "edit" | "remove">("");
  const close = () => {
    setDialog("");
    onChanged();
  };
  if (!definition) return null;
  const canChange = may(session, "admin") && !definition.defined_in_file;
  return (
    <>
      <TabHead sub={definition.defined_in_file ? "This destination belongs to the configuration file. Change it there." : "What the service does with its messages"}>
        {canChange && <Button kind="main" onClick={() => setDialog("edit")}>Change</Button>}
        {canChange && <Button kind="danger" disabled={!numbers} onClick={() => setDialog("remove")}>Remove the destination</Button>}
      </TabHead>
      <Panel><Definition value={definition} /></Panel>
      {dialog === "edit" && <DestinationEditor destination={definition} onClose={close} />}
      {dialog === "remove" && numbers && <RemoveDialog name={destination} held={numbers.pending + numbers.dead_letters} onClose={close} />}
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
