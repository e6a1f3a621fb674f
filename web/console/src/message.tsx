// One message: its fields, its timeline and its body.
import { useState } from "preact/hooks";
import { ask, api, type DeadLetter, type Failure, type Gone, type Message, type Pending, type Session } from "./api.ts";
import { bytes, count, duration, failureText, laneName, many, time } from "./format.ts";
import { MessageActions } from "./message_dialog.tsx";
import { tab } from "./router.ts";
import { Button, Chip, ErrorNotice, download, useLoad } from "./ui.tsx";

/** Characters of a body that are shown. The download has all. */
const SHOWN_MAX = 20_000;

export const isGone = (message: Message): message is Gone => "latency" in message;
export const isLetter = (message: Message): message is DeadLetter => "dead_lettered_at" in message;

/** A message. The log tells less of a dead letter than the letter itself. */
export async function showMessage(destination: string, sequence: number): Promise<Message> {
  const path = { destination, sequence };
  const found = await ask(api.GET("/v1/destinations/{destination}/messages/{sequence}", { params: { path } }));
  if (!isGone(found) || !found.dead_letter) return found;
  return ask(api.GET("/v1/destinations/{destination}/dead-letters/{sequence}", { params: { path } })).catch(() => found);
}

interface Step {
  name: string;
  at: number | null;
  detail?: string;
  state?: string;
}

function steps(message: Message): Step[] {
  const at = (text: string | null | undefined) => (text ? new Date(text).getTime() : null);
  if (isGone(message)) {
    const { waited_ms, processing_ms, delivery_ms } = message.latency;
    const received = at(message.received_at)!;
    const settled = at(message.settled_at)!;
    const all: Step[] = [{ name: "arrived", at: received }];
    if (waited_ms != null) all.push({ name: "claimed", at: received + waited_ms, state: "processing" });
    if (waited_ms != null && processing_ms != null)
      all.push({ name: "ready", at: received + waited_ms + processing_ms, state: "ready", detail: `processing took ${duration(processing_ms)}` });
    if (message.state === "delivered")
      all.push({ name: "delivery began", at: settled - delivery_ms, state: "delivering", detail: `attempt ${message.attempts}` });
    all.push({ name: message.state.replace("_", "-"), at: settled, state: message.state, detail: `${duration(message.latency.total_ms)} after its arrival` });
    return all;
  }
  const all: Step[] = [{ name: "arrived", at: at(message.received_at) }];
  const errors = [...(message.errors ?? [])].reverse();
  for (const error of errors)
    all.push({ name: `failed in ${error.stage}`, at: at(error.occurred_at), state: "halted", detail: failureText(error) });
  const left = message.attempts - errors.length;
  // The first and the last errors are stored.
  if (left > 0 && errors.length) all.splice(2, 0, { name: many(left, "more failed attempt"), at: null, state: "halted", detail: "Reseq stores the first error and the last ones." });
  if (isLetter(message)) {
    all.push({ name: "dead-lettered", at: at(message.dead_lettered_at), state: "dead_lettered", detail: message.reason });
  } else {
    if (message.halted_at) all.push({ name: "halted", at: at(message.halted_at), state: "halted" });
    if (message.due_at) all.push({ name: "due", at: at(message.due_at), state: "delayed" });
    all.push({ name: `now ${message.state}`, at: null, state: message.state });
  }
  return all;
}

export function Timeline({ message }: { message: Message }) {
  const all = steps(message);
  return (
    <ol class="timeline">
      {all.map((step, at) => {
        const before = all[at - 1]?.at ?? all[at - 2]?.at;
        const gap = step.at != null && before != null ? step.at - before : null;
        return (
          <li key={at}>
            <span class={`dot is-${step.state ?? "waiting"}`} aria-hidden="true" />
            <span class="step-name">{step.name}</span>
            <span class="number step-at">{step.at == null ? "" : time(new Date(step.at).toISOString())}</span>
            <span class="number step-gap">{gap == null ? "" : gap < 0 ? `– ${duration(-gap)}` : `+ ${duration(gap)}`}</span>
            {step.detail && <span class="step-detail">{step.detail}</span>}
          </li>
        );
      })}
    </ol>
  );
}

/** Some errors of a message with so many failed attempts. */
export function Errors({ errors, attempts }: { errors: Failure[]; attempts: number }) {
  return (
    <>
    {attempts > errors.length && <p class="muted small">{count(errors.length)} of {many(attempts, "failed attempt")}</p>}
    <ul class="errors">
      {errors.map((error, at) => (
        <li key={at}>
          <span class="muted number">{time(error.occurred_at)}</span> {error.stage}, {error.kind}
          <pre>{failureText(error)}</pre>
        </li>
      ))}
    </ul>
    </>
  );
}

/** The body as text to show and to edit; null if it is not text. */
export function bodyText(message: { body?: unknown; body_base64?: string | null }): { text: string | null; raw: Uint8Array<ArrayBuffer> } {
  if (message.body_base64 != null) {
    const raw = Uint8Array.from(atob(message.body_base64), (one) => one.charCodeAt(0));
    try {
      return { text: new TextDecoder("utf-8", { fatal: true }).decode(raw), raw };
    } catch {
      return { text: null, raw };
    }
  }
  const text = JSON.stringify(message.body, null, 2) ?? "";
  return { text, raw: new TextEncoder().encode(JSON.stringify(message.body) ?? "") };
}

export function Body({ message, name }: { message: Pending | DeadLetter; name: string }) {
  const [isOpen, open] = useState(false);
  if (!isOpen) {
    return <Button onClick={() => open(true)}>Show the body ({bytes(message.bytes)}, {message.content_type})</Button>;
  }
  const { text, raw } = bodyText(message);
  const cut = text !== null && text.length > SHOWN_MAX;
  return (
    <div class="body">
      {text === null ? <p class="muted">The body is not text.</p> : <pre class="code" tabIndex={0} aria-label="Body">{cut ? text.slice(0, SHOWN_MAX) : text}</pre>}
      {cut && <p class="muted">The first {SHOWN_MAX} of {text.length} characters.</p>}
      {/* Always saved as plain bytes, so that no program opens it as a page. */}
      <Button onClick={() => download(`${name}.body`, "application/octet-stream", raw)}>Download</Button>
    </div>
  );
}

export function Fields({ message, destination }: { message: Message; destination: string }) {
  const rows: [string, preact.ComponentChildren][] = [
    ["Sequence", <><a href={tab(destination, "messages", {}, message.sequence)}>{message.sequence}</a> <span class="muted">epoch {message.epoch}</span></>],
    ["Id", <code>{message.id}</code>],
    ["Key", message.key == null ? <span class="muted">none</span> : <a href={tab(destination, "lane", { key: message.key })}>{laneName(message.key)}</a>],
  ];
  if (!isGone(message)) {
    rows.push(["Failed attempts", <>{message.attempts}{message.stalls ? `, and ${many(message.stalls, "expired lease")}` : ""}</>]);
    if (message.previous != null) rows.push(["Message before it in the lane", message.previous ? <a href={tab(destination, "messages", {}, message.previous)}>{message.previous}</a> : <span class="muted">none</span>]);
    if (message.origin) rows.push(["Origin", <>{message.origin.destination} {message.origin.sequence}</>]);
    if (message.damaged) rows.push(["Damaged", message.damaged]);
    for (const [name, value] of Object.entries(message.headers ?? {})) rows.push([name, <code>{value}</code>]);
  }
  return (
    <dl class="fields">
      {rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
    </dl>
  );
}

/** The state of a message, and how often it has failed. */
export const StateChip = ({ message }: { message: Message }) =>
  isGone(message) || isLetter(message) ? <Chip state={message.state} /> : <Chip state={message.state} isPending attempts={message.attempts} />;

/** Everything about one message. It is read again when `turn` changes. */
export function MessageDetails({ session, destination, sequence, turn, onDone }: {
  session: Session; destination: string; sequence: number; turn?: string; onDone?: () => void;
}) {
  const { value, error, again } = useLoad(() => showMessage(destination, sequence), [destination, sequence, turn]);
  if (!value) return error ? <ErrorNotice error={error} /> : <p class="muted" role="status">Reading message {sequence} …</p>;
  return (
    <div class="message">
      <p class="message-head"><StateChip message={value} /> {"age_ms" in value && value.age_ms != null && <span class="muted">arrived {duration(value.age_ms)} ago</span>}</p>
      <div class="actions">
        {/* Only the page of a lane has turns. */}
        {turn === undefined && !isGone(value) && !isLetter(value) && <a class="button" href={tab(destination, "lane", { key: value.key ?? "" })}>Show the lane</a>}
        <MessageActions session={session} destination={destination} message={value} onDone={() => { again(); onDone?.(); }} />
      </div>
      <h3>Timeline</h3>
      <Timeline message={value} />
      {!isGone(value) && value.errors && value.errors.length > 0 && <><h3>Errors</h3><Errors errors={value.errors} attempts={value.attempts} /></>}
      <h3>Fields</h3>
      <Fields message={value} destination={destination} />
      {!isGone(value) && <Body message={value} name={`${destination}-${value.sequence}`} />}
    </div>
  );
}
