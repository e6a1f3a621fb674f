// Sends one message.
import { useState } from "preact/hooks";
import { api, ask } from "./api.ts";
import { instant } from "./format.ts";
import { Button, Dialog, ErrorNotice, Field, Notice, useAction } from "./ui.tsx";

export function SendDialog({ destination, topic, onClose }: { destination?: string; topic?: string; onClose: () => void }) {
  const [texts, setTexts] = useState<Record<string, string>>({ body: "{}" });
  const [told, tell] = useState("");
  const { isBusy, error, run } = useAction();
  const set = (name: string) => (event: { currentTarget: { value: string } }) => setTexts((now) => ({ ...now, [name]: event.currentTarget.value }));
  let value: unknown;
  let problem = "";
  try {
    value = JSON.parse(texts.body ?? "");
  } catch (caught) {
    problem = (caught as Error).message;
  }
  const send = () => run(async () => {
    tell("");
    const body = {
      ...(topic ? { topic } : { destinations: [destination!] }), body: value, key: texts.key || undefined, id: texts.id || undefined,
      idempotency_key: texts.idempotency_key || undefined, due_at: instant(texts.due_at ?? ""), priority: texts.priority ? Number(texts.priority) : undefined,
    };
    const answer = await ask(api.POST("/v1/messages", { body: body as never }));
    const stored = answer as unknown as { deliveries: { destination: string; sequence: number; duplicate: boolean }[] };
    tell(stored.deliveries.map((one) => `${one.destination} has it as message ${one.sequence}${one.duplicate ? ", from before" : ""}`).join("; "));
  });
  return (
    <Dialog title={`Send a message to ${topic ?? destination}`} wide onClose={onClose}>
      <Field label="Body" error={problem} hint="JSON"><textarea class="code" rows={8} spellcheck={false} value={texts.body} onInput={set("body")} /></Field>
      <div class="form-grid">
        <Field label="Ordering key"><input value={texts.key ?? ""} onInput={set("key")} /></Field>
        <Field label="Id" hint="A UUID if it is empty."><input value={texts.id ?? ""} onInput={set("id")} /></Field>
        <Field label="Idempotency key"><input value={texts.idempotency_key ?? ""} onInput={set("idempotency_key")} /></Field>
        <Field label="Due at" hint="Process it only after this time."><input type="datetime-local" value={texts.due_at ?? ""} onInput={set("due_at")} /></Field>
        <Field label="Priority" hint="0 to 9; only without ordering."><input inputMode="numeric" value={texts.priority ?? ""} onInput={set("priority")} /></Field>
      </div>
      <ErrorNotice error={error} />
      {told && <Notice kind="good">{told}</Notice>}
      <div class="actions is-end">
        <Button onClick={onClose}>Close</Button>
        <Button kind="main" disabled={isBusy || !!problem} onClick={send}>Send</Button>
      </div>
    </Dialog>
  );
}
