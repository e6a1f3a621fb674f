// The signature view: messages of a lane finish out of order, and leave in order.
import { useEffect, useState } from "preact/hooks";
import { api, ask, may, type Pending, type Session } from "../api.ts";
import { LiveSign } from "../app.tsx";
import { BulkDialog } from "../bulk.tsx";
import { BusiestLanes } from "../busiest.tsx";
import { count, duration, laneName } from "../format.ts";
import { useLive } from "../live.ts";
import { bodyText, Errors, isGone, isLetter, MessageDetails, showMessage } from "../message.tsx";
import { CancelButton } from "../message_dialog.tsx";
import { go, tab } from "../router.ts";
import { laneOf, nameOf, wholeOf } from "../shards.tsx";
import { Strip, type Cell, type Left } from "../strip.tsx";
import { WhyStuck } from "../why.tsx";
import { Button, Chip, Dialog, Empty, ErrorNotice, Field, Legend, Notice, Panel, TabHead, useAction, useLoad, type Counted } from "../ui.tsx";
import type { TabProps } from "./destination.tsx";
import { type Paused, pausedText } from "./destinations.tsx";

export interface Lane {
  at_ms: number;
  destination: string;
  key: string | null;
  ordering: "destination" | "key" | "none";
  transform: string;
  delivery: string;
  paused: Paused;
  counts: Record<Counted | "pending" | "last_sequence" | "delivered_total" | "dead_letters", number> & { retrying: number | null };
  heads: { shard?: string | null; sequence: number; key: string | null; state: string; age_ms: number; attempts: number; last_error?: { status?: number | null; detail: string } | null }[];
  cells: Cell[];
  has_more: boolean;
  left: Left[];
}

export const LaneTab = (props: TabProps) => (props.shards > 1 ? <ToShard {...props} /> : <LaneOfShard {...props} />);

/** Leads to the lane in its shard; without a key, to the one that has waited longest. */
function ToShard({ destination, query }: TabProps) {
  const { value, error } = useLoad(() => laneOf(destination, query.get("key") ?? undefined), []);
  useEffect(() => {
    if (value) location.replace(tab(value.shard, "lane", { key: value.key }));
  }, [value]);
  return <><TabHead sub={error ? "" : "…"} /><ErrorNotice error={error} /></>;
}

function LaneOfShard({ session, destination, query }: TabProps) {
  const laneKey = query.get("key") ?? undefined;
  const live = useLive<Lane>({ view: "lane", destination, key: laneKey });
  // The first shard has the name of the destination, which in requests means all shards.
  const lane = live.value && { ...live.value, destination };
  const [selected, select] = useState<number | null>(null);
  const [other, setOther] = useState("");
  // Without a key in the address: the lane with the oldest head.
  const oldest = lane?.ordering === "key" && laneKey === undefined ? lane.heads[0]?.key : undefined;
  useEffect(() => {
    if (oldest) location.replace(tab(destination, "lane", { key: oldest }));
  }, [oldest]);
  const head = lane?.cells[0];
  const chosen = lane?.cells.find((one) => one.sequence === selected);
  return (
    <>
      <TabHead sub={lane ? <>{lane.ordering === "key" ? <>Ordering key: <b>{laneName(lane.key)}</b></> : lane.ordering === "none" ? "Without ordering: each message is a lane of its own" : "One lane: all messages stay in order"}</> : live.error ? "" : "…"}>
        <LiveSign live={live} />
      </TabHead>
      {live.error && <Notice>{live.error}</Notice>}
      {lane && (
        <>
          {pausedText(lane.paused) && <Notice kind="info">{pausedText(lane.paused)}</Notice>}
          {lane.ordering === "key" && (
            <div class="filters">
              {lane.heads.length > 0 && <span class="muted">Lanes with the oldest heads:</span>}
              {lane.heads.map((one) => (
                <a key={nameOf(one)} class={`lane-link ${one.key === lane.key ? "is-current" : ""}`} href={tab(destination, "lane", { key: one.key ?? "" })}>
                  <span class={`swatch is-${one.state}`} aria-hidden="true" /> {laneName(one.key ?? "")} <span class="muted number">{duration(one.age_ms)}</span>
                </a>
              ))}
              <form class="inline" onSubmit={(event) => { event.preventDefault(); go(tab(wholeOf(destination), "lane", { key: other })); }}>
                <label>Another key <input value={other} onInput={(event) => setOther(event.currentTarget.value)} /></label>
                <Button type="submit">Show</Button>
              </form>
            </div>
          )}
          <Panel class="strip-panel">
            <Strip cells={lane.cells} left={lane.left} hasMore={lane.has_more} selected={selected} onSelect={(sequence) => select(sequence === selected ? null : sequence)} />
            <Legend counts={tally(lane.cells)} />
            <p class="muted small">A message is processed as soon as a worker is free, so it can be ready before those in front of it. It passes the gate only after all of them.</p>
          </Panel>
          <div class="columns is-lane">
            <Panel title="Head of the lane">
              {head ? <HeadOfLane session={session} lane={lane} head={head} /> : <Empty>Nothing is pending in this lane.</Empty>}
            </Panel>
            <Panel title={selected === null ? "A message" : `Message ${selected}`} tools={selected !== null && <Button onClick={() => select(null)} aria-label="Close the message">×</Button>}>
              {selected === null ? <Empty>Select a message of the strip.</Empty> : (
                <MessageDetails destination={destination} sequence={selected} turn={chosen ? `${chosen.state}${chosen.attempts}` : `left${lane.left.some((one) => one.sequence === selected)}`}
                  session={session} />
              )}
            </Panel>
          </div>
          {lane.ordering === "key" && <BusiestLanes destination={wholeOf(destination)} />}
        </>
      )}
    </>
  );
}

/** The last errors of a head that are shown. */
const ERRORS_SHOWN = 3;

function tally(cells: Cell[]): Partial<Record<Counted, number>> {
  const counts: Record<string, number> = {};
  for (const cell of cells) counts[cell.state === "damaged" ? "halted" : cell.state] = (counts[cell.state] ?? 0) + 1;
  return counts;
}

/** How long the success of an action is told, in ms: shorter over a head that has failed again. A new reading ends it. */
const TOLD_MS = 10_000;
const TOLD_URGENT_MS = 1500;

const HOLDERS: Record<string, (lane: Lane, head: Cell) => string> = {
  waiting: () => "nobody: it waits until it is claimed",
  processing: (lane, head) => {
    const kind = lane.transform === "worker" ? "worker" : "processor";
    return `${head.worker ? `${kind} ${head.worker}` : `a ${kind}${kind === "worker" ? " without a name" : ""}`}, under a lease`;
  },
  ready: (lane) => {
    if (lane.paused.delivery) return "nobody: delivery is paused";
    return lane.delivery === "pull" ? "nobody: it waits for a consumer, or for the end of a backoff" : "the sender: it delivers it next, or after a backoff";
  },
  delivering: (lane, head) => {
    if (lane.delivery !== "pull") return "the receiver: its delivery is in progress";
    return `${head.worker ? `consumer ${head.worker}` : "a consumer without a name"}, under a lease`;
  },
  delayed: () => "nobody: it is due later",
  halted: () => "you: retry it, repair it, set it aside or cancel it",
  damaged: () => "you: its data cannot be read; set it aside or cancel it",
};

function HeadOfLane({ session, lane, head }: { session: Session; lane: Lane; head: Cell }) {
  const { destination } = lane;
  const isBehind = head.state === "halted" || head.state === "damaged" || head.attempts > 0;
  const { value, error } = useLoad(() => showMessage(destination, head.sequence), [destination, head.sequence, head.state, head.attempts]);
  const behind = lane.cells.slice(1);
  const message = value && !isGone(value) && !isLetter(value) ? (value as Pending) : null;
  return (
    <>
      <p class="head-line">
        <span class="head-number number">{head.sequence}</span> <Chip state={head.state} isPending attempts={head.attempts} />
        {head.withdrawing && <span class="tag">withdrawing</span>}
      </p>
      <dl class="fields">
        <div><dt>Held by</dt><dd>{(HOLDERS[head.state] ?? (() => "nobody: it leaves without delivery"))(lane, head)}</dd></div>
        <div><dt>Arrived</dt><dd class="number">{duration(head.age_ms)} ago</dd></div>
        {message?.halted_at && <div><dt>Halted</dt><dd class="number">{duration(lane.at_ms - new Date(message.halted_at).getTime())} ago</dd></div>}
        {head.lease_expires_ms !== undefined && <div><dt>Lease expires</dt><dd class="number">in {duration(Math.max(0, head.lease_expires_ms - lane.at_ms))}, unless extended</dd></div>}
        {head.due_ms !== undefined && <div><dt>Due</dt><dd class="number">in {duration(Math.max(0, head.due_ms - lane.at_ms))}</dd></div>}
        <div><dt>Failed attempts</dt><dd class="number">{head.attempts}</dd></div>
        {lane.ordering !== "none" && <div><dt>Behind it</dt><dd class="number">{lane.has_more ? "more than " : ""}{count(behind.length)} {behind.length === 1 ? "message" : "messages"}, {count(behind.filter((one) => one.state === "ready").length)} of them ready</dd></div>}
      </dl>
      <ErrorNotice error={error} />
      {message?.errors && message.errors.length > 0 && <><h3>Errors</h3><Errors errors={message.errors.slice(0, ERRORS_SHOWN)} attempts={Math.max(head.attempts, message.errors.length)} /></>}
      {lane.ordering !== "none" && (
        <WhyStuck destination={destination} laneKey={lane.ordering === "key" ? lane.key ?? "" : undefined} head={`${head.sequence} ${head.state} ${head.attempts}`}
          isUrgent={isBehind || lane.paused.delivery} />
      )}
      <HeadActions session={session} lane={lane} head={head} message={message} isUrgent={isBehind} />
    </>
  );
}

function HeadActions({ session, lane, head, message, isUrgent }: {
  session: Session; lane: Lane; head: Cell; message: Pending | null; isUrgent: boolean;
}) {
  const { isBusy, error, run } = useAction();
  const [told, setTold] = useState({ text: "", atMs: 0, of: 0 });
  const tell = (text: string) => setTold({ text, atMs: Date.now(), of: sequence });
  const [isRepair, setRepair] = useState(false);
  const [isAll, setAll] = useState(false);
  const toldMs = isUrgent && told.of === head.sequence ? TOLD_URGENT_MS : TOLD_MS;
  const { destination } = lane;
  const { sequence } = head;
  if (!may(session, "operate")) return <p class="muted">Your token may only read.</p>;
  const path = { params: { path: { destination } } };
  const at = { sequence, ...(lane.ordering === "key" ? { key: lane.key ?? "" } : {}) };
  const act = (action: () => Promise<unknown>, what: string) => run(async () => {
    tell("");
    await action();
    tell(`Message ${sequence} ${what}.`);
  });
  // All that are halted are counted; of those in backoff, only the oldest are known.
  const backoffs = lane.heads.filter((one) => one.state !== "halted" && one.attempts > 0).length;
  const canRetry = head.state === "halted" || head.state === "delayed" || (head.state === "ready" && head.attempts > 0);
  return (
    <>
      <div class="actions">
        <Button kind={isUrgent ? "main" : "plain"} disabled={isBusy || !canRetry} onClick={() => act(() => ask(api.POST("/v1/destinations/{destination}/retry-head", { ...path, body: at })), "is tried again")}>Retry now</Button>
        <Button disabled={isBusy || head.state !== "halted" || !message} onClick={() => setRepair(true)}>Repair the body and retry</Button>
        <Button disabled={isBusy} onClick={() => act(() => ask(api.POST("/v1/destinations/{destination}/skip-head", { ...path, body: at })), "is now a dead letter")}>Set aside</Button>
        <CancelButton destination={destination} sequence={sequence} />
        {lane.counts.halted + backoffs > 1 && <Button onClick={() => setAll(true)}>Retry all failed heads</Button>}
      </div>
      <p class="muted small">Set aside: it becomes a dead letter, and the lane continues.</p>
      <ErrorNotice error={error} />
      {told.text && Date.now() - told.atMs < toldMs && <Notice kind="good">{told.text}</Notice>}
      {isRepair && message && <RepairDialog destination={destination} at={at} message={message} onClose={(text) => { setRepair(false); if (text) tell(text); }} />}
      {isAll && <BulkDialog title="Retry all failed heads" verb="Retry" uncounted={`${count(lane.counts.halted)} halted, and all that wait for a backoff`}
        explain={`Each lane of ${destination} whose head is halted or waits for a backoff tries it again now.`}
        run={() => ask(api.POST("/v1/destinations/{destination}/retry-head", { params: { path: { destination }, header: { prefer: "respond-async" } as never }, headers: { prefer: "respond-async" }, body: { all: true } })) as never}
        onClose={() => setAll(false)} />}
    </>
  );
}

function RepairDialog({ destination, at, message, onClose }: {
  destination: string; at: { sequence: number; key?: string }; message: Pending; onClose: (told?: string) => void;
}) {
  const first = bodyText(message).text;
  const isJson = message.body_base64 == null;
  const [text, setText] = useState(first ?? "");
  const [type, setType] = useState(message.content_type);
  const { isBusy, error, run } = useAction();
  let problem = "";
  let value: unknown;
  if (isJson) {
    try {
      value = JSON.parse(text);
    } catch (caught) {
      problem = (caught as Error).message;
    }
  }
  const send = () => run(async () => {
    const raw = new TextEncoder().encode(text);
    const body = isJson ? { ...at, body: value } : { ...at, body_base64: btoa(Array.from(raw, (one) => String.fromCharCode(one)).join("")), content_type: type };
    await ask(api.POST("/v1/destinations/{destination}/retry-head", { params: { path: { destination } }, body }));
    onClose(`Message ${at.sequence} has its new body, and is tried again.`);
  });
  return (
    <Dialog title={`Repair message ${at.sequence}`} wide onClose={() => onClose()}>
      <p>The corrected body replaces the body of the halted message, which keeps its place, and is tried again at once.</p>
      <Field label="Body" error={problem} hint={isJson ? "JSON" : first === null ? "The body is not text. What you write replaces all of it." : "Text, sent as it is"}>
        <textarea class="code" rows={14} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </Field>
      {!isJson && <Field label="Content type"><input value={type} onInput={(event) => setType(event.currentTarget.value)} /></Field>}
      <ErrorNotice error={error} />
      <div class="actions is-end">
        <Button onClick={() => onClose()}>Cancel</Button>
        <Button kind="main" disabled={isBusy || !!problem} onClick={send}>Replace the body and retry</Button>
      </div>
    </Dialog>
  );
}
