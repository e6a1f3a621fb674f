// A bulk operation: first the count, then the change, with its progress while it runs.
import { useEffect, useState } from "preact/hooks";
import { api, ask, type Operation } from "./api.ts";
import { count } from "./format.ts";
import { tab } from "./router.ts";
import { Button, Dialog, ErrorNotice, Notice, useAction } from "./ui.tsx";

export function Progress({ operation }: { operation: Operation }) {
  const done = operation.affected + operation.failed;
  const isStored = ["redrive", "replay"].includes(operation.kind);
  const [one, ...others] = operation.deliveries ?? [];
  return (
    <div class="progress">
      <progress max={Math.max(operation.matched, 1)} value={operation.state === "running" ? done : Math.max(operation.matched, 1)}
        aria-label={`${operation.kind}: ${count(done)} of ${count(operation.matched)}`} />
      <p role="status">
        <b>{operation.state}</b>: {count(operation.affected)} of {count(operation.matched)} {isStored ? "stored again" : "done"}
        {one && others.length === 0 && <>, as message <a href={tab(operation.destination, "messages", {}, one.new_sequence)}>{one.new_sequence}</a></>}
        {operation.failed > 0 && <>, {count(operation.failed)} could not be changed</>}
        {operation.withdrawing ? <>, {count(operation.withdrawing)} leave when their attempt has ended</> : null}
        {operation.duplicates ? <>, {count(operation.duplicates)} were stored before</> : null}
        {operation.without_body ? <>, {count(operation.without_body)} without a body</> : null}
      </p>
      {isStored && operation.affected > 0 && <p class="muted small">What becomes of {operation.affected === 1 ? "it shows in a row of its own" : "them shows in rows of their own"}, under Messages and History.</p>}
      {operation.problem && <Notice>{operation.problem.detail}</Notice>}
    </div>
  );
}

/** Follows an operation until it has ended. */
export function useOperation(start: Operation | null): [Operation | null, (now: Operation) => void] {
  const [operation, set] = useState(start);
  useEffect(() => {
    if (!operation || operation.state !== "running") return;
    const timer = setTimeout(async () => {
      const path = { destination: operation.destination, id: operation.id };
      const now = await ask(api.GET("/v1/destinations/{destination}/operations/{id}", { params: { path } })).catch(() => null);
      set(now ?? { ...operation });
    }, 700);
    return () => clearTimeout(timer);
  }, [operation]);
  return [operation, set];
}

export const cancelOperation = (operation: Operation) =>
  ask(api.POST("/v1/destinations/{destination}/operations/{id}/cancel", {
    params: { path: { destination: operation.destination, id: operation.id } },
  }));

/** Counts, asks, runs, and shows the progress. `run(true)` only counts; with `uncounted`, which says how many there are, it is not called. */
export function BulkDialog({ title, verb, explain, run, uncounted, onClose, danger = false }: {
  title: string; verb: string; explain: string; run: (isDryRun: boolean) => Promise<Operation>;
  uncounted?: string; onClose: (isDone: boolean) => void; danger?: boolean;
}) {
  const [matched, setMatched] = useState<number | null>(null);
  const [operation, setOperation] = useOperation(null);
  const { isBusy, error, run: act } = useAction();
  useEffect(() => {
    if (uncounted === undefined) act(async () => setMatched((await run(true)).matched));
  }, []);
  return (
    <Dialog title={title} onClose={() => onClose(operation !== null)}>
      <p>{explain}</p>
      <ErrorNotice error={error} />
      {operation ? <Progress operation={operation} /> : uncounted !== undefined ? <p class="big">{uncounted}</p> : matched === null ? (!error && <p role="status">Counting …</p>) : (
        <p class="big" role="status"><b>{count(matched)}</b> {matched === 1 ? "message" : "messages"} selected</p>
      )}
      <div class="actions is-end">
        {operation?.state === "running" && <Button onClick={() => act(async () => setOperation(await cancelOperation(operation)))}>Cancel the operation</Button>}
        {operation ? <Button kind="main" onClick={() => onClose(true)}>Close</Button> : (
          <>
            <Button onClick={() => onClose(false)}>Cancel</Button>
            <Button kind={danger ? "danger" : "main"} disabled={isBusy || (uncounted === undefined && !matched)} onClick={() => act(async () => setOperation(await run(false)))}>
              {verb} {matched === null ? "" : count(matched)}
            </Button>
          </>
        )}
      </div>
    </Dialog>
  );
}
