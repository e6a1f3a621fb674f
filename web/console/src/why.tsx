// Why a lane is stuck, and what to do, like `reseq why`.
import { useEffect, useState } from "preact/hooks";
import { api, ask, type Schema } from "./api.ts";
import { bytes, count, duration, time } from "./format.ts";
import { ErrorNotice, useLoad } from "./ui.tsx";

/** If a head stays for this long, in ms, the console asks why. */
const STAYS_MS = 2000;

/** True once `what` has stayed the same for `STAYS_MS`; at once if it is urgent. */
function useStays(what: string, isUrgent: boolean): boolean {
  const [stayed, stay] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => stay(what), STAYS_MS);
    return () => clearTimeout(timer);
  }, [what]);
  return isUrgent || stayed === what;
}

/** What blocks the lane. Asked only when its head stays, so that a lane that moves costs nothing. `head` changes with the head. */
export function WhyStuck({ destination, laneKey, head, isUrgent }: { destination: string; laneKey: string | undefined; head: string; isUrgent: boolean }) {
  const isAsked = useStays(head, isUrgent);
  return isAsked ? <Answer key={head} destination={destination} laneKey={laneKey} /> : null;
}

function Answer({ destination, laneKey }: { destination: string; laneKey: string | undefined }) {
  const { value, error } = useLoad(() => ask(api.GET("/v1/destinations/{destination}/why", { params: { path: { destination }, query: { key: laneKey } } })), []);
  if (error) return <ErrorNotice error={error} />;
  if (!value || value.cause === "nothing") return null;
  return <Why why={value} />;
}

function Why({ why }: { why: Schema["Why"] }) {
  const due = why.next_attempt_at ? new Date(why.next_attempt_at).getTime() - Date.now() : 0;
  const causes = Object.entries(why.blocked_ms_by_cause ?? {}).sort((a, b) => b[1] - a[1]);
  return (
    <section class="why" aria-label="Why is it stuck?">
      <h3>Why is it stuck?</h3>
      <p>{why.explanation}</p>
      {why.next_attempt_at && <p>Next attempt: <b class="number">{time(why.next_attempt_at).slice(0, 19)}</b>{due > 0 && <>, in <span class="number">{duration(due)}</span></>}</p>}
      <p class="muted small">
        Cause: <code>{why.cause}</code>{why.blocked_ms != null && <>, the head for {duration(why.blocked_ms)}</>}; {count(why.behind)} {why.behind === 1 ? "message" : "messages"}{why.bytes_behind != null && <> ({bytes(why.bytes_behind)})</>} {why.behind === 1 ? "waits" : "wait"} behind it.
      </p>
      {causes.length > 0 && (
        <dl class="fields">
          {causes.map(([cause, ms]) => <div key={cause}><dt>Blocked: {cause.replaceAll("_", " ")}</dt><dd class="number">{duration(ms)}</dd></div>)}
        </dl>
      )}
      {why.actions.length > 0 && (
        <ul class="what-to-do" aria-label="What to do">
          {why.actions.map((one) => <li key={one.command}>{one.when}: <code>{one.command}</code></li>)}
        </ul>
      )}
    </section>
  );
}
