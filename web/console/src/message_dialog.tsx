// What can be done with one message, and the window that shows it. The address of the page names the message.
import { useState } from "preact/hooks";
import { api, ask, may, type Message, type Operation, type Session } from "./api.ts";
import { BulkDialog } from "./bulk.tsx";
import { isGone, isLetter, MessageDetails } from "./message.tsx";
import { byShard, type Item } from "./shards.tsx";
import { Button, Dialog, ErrorNotice, useAction } from "./ui.tsx";

export function CancelButton({ destination, sequence, onDone }: { destination: string; sequence: number; onDone?: () => void }) {
  const [isOpen, open] = useState(false);
  const { isBusy, error, run } = useAction();
  const cancel = () => run(async () => {
    await ask(api.DELETE("/v1/destinations/{destination}/messages/{sequence}", { params: { path: { destination, sequence } } }));
    open(false);
    onDone?.();
  });
  return (
    <>
      <Button kind="danger" onClick={() => open(true)}>Cancel the message</Button>
      {isOpen && (
        <Dialog title={`Cancel message ${sequence}?`} onClose={() => open(false)}>
          <p>It leaves {destination} without delivery. Nobody can bring it back.</p>
          <ErrorNotice error={error} />
          <div class="actions is-end">
            <Button onClick={() => open(false)}>Keep it</Button>
            <Button kind="danger" disabled={isBusy} onClick={cancel}>Cancel message {sequence}</Button>
          </div>
        </Dialog>
      )}
    </>
  );
}

export type Verb = "redrive" | "discard";

/** Redrives or discards dead letters: the count first. These, or what the body says of all shards. */
export function VerbDialog({ destination, verb, which, isSpread, onClose }: {
  destination: string; verb: Verb; which: Item[] | object; isSpread?: boolean; onClose: (isDone: boolean) => void;
}) {
  const each: [string, object][] = Array.isArray(which)
    ? byShard<Item>(destination, which).map(([name, items]) => [name, { sequences: items.map((one) => one.sequence) }])
    : [[destination, which]];
  const run = (isDryRun: boolean) => Promise.all(each.map(([name, body]) => {
    const options = { params: { path: { destination: name } }, headers: isDryRun ? {} : { prefer: "respond-async" }, body: { ...body, dry_run: isDryRun } as never };
    const call = verb === "redrive"
      ? api.POST("/v1/destinations/{destination}/dead-letters/redrive", options)
      : api.POST("/v1/destinations/{destination}/dead-letters/discard", options);
    return ask(call) as Promise<Operation>;
  }));
  return verb === "redrive"
    ? <BulkDialog title="Redrive dead letters" verb="Redrive" explain="Each is stored again, at the end of its lane, with its id, key and headers." run={run} isSpread={isSpread} onClose={onClose} />
    : <BulkDialog title="Discard dead letters" verb="Discard" danger explain="Each is deleted. Nobody can bring it back." run={run} onClose={onClose} />;
}

export function MessageActions({ session, destination, message, onDone }: { session: Session; destination: string; message: Message; onDone: () => void }) {
  const [verb, setVerb] = useState<Verb | null>(null);
  if (!may(session, "operate") || isGone(message)) return null;
  if (!isLetter(message)) return <CancelButton destination={destination} sequence={message.sequence} onDone={onDone} />;
  return (
    <>
      <Button kind="main" onClick={() => setVerb("redrive")}>Redrive</Button>
      <Button kind="danger" onClick={() => setVerb("discard")}>Discard</Button>
      {verb && <VerbDialog destination={destination} verb={verb} which={[{ sequence: message.sequence }]} onClose={(isDone) => { setVerb(null); if (isDone) onDone(); }} />}
    </>
  );
}

export function MessageDialog({ session, destination, sequence, onClose, onDone }: {
  session: Session; destination: string; sequence: number; onClose: () => void; onDone: () => void;
}) {
  return (
    <Dialog title={`Message ${sequence} of ${destination}`} wide onClose={onClose}>
      <MessageDetails destination={destination} sequence={sequence} session={session} onDone={onDone} />
    </Dialog>
  );
}
