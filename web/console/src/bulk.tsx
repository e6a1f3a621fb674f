// A bulk operation: first the count, then the change, with its progress while it runs.
import { useEffect, useState } from "preact/hooks";
import { api, ask, type Operation } from "./api.ts";
import { count } from "./format.ts";
import { tab } from "./router.ts";
import { Button, Dialog, ErrorNotice, Notice, useAction } from "./ui.tsx";

/** With several shards, the service does not say in which one a message is stored again. */
export function Progress({ operation, isSpread = false }: { operation: Operation; isSpread?: boolean }) {
  const done = operation.affected + operation.failed;
  const isStored = ["redrive", "replay"].includes(operation.kind);
  const [one, ...others] = operation.deliveries ?? [];
  return (
    <div class="progress">
      <progress max={Math.max(operation.matched, 1)} value={operation.state === "running" ? done : Math.max(operation.matched, 1)}
        aria-label={`${operation.kind}: ${count(done)} of ${count(operation.matched)}`} />
      <p role="status">
        <b>{operation.state}</b>: {count(operation.affected)} of {count(operation.matched)} {isStored ? "stored again" : "done"}
        {one && others.length === 0 && <>, as message {isSpread ? one.new_sequence : <a href={tab(operation.destination, "messages", {}, one.new_sequence)}>{one.new_sequence}</a>}</>}
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

const isRunning = (operation: Operation) => operation.state === "running";

/** Follows operations until they have ended. */
function useOperations(): [Operation[], (now: Operation[]) => void] {
  const [operations, set] = useState<Operation[]>([]);
  useEffect(() => {
    if (!operations.some(isRunning)) return;
    const timer = setTimeout(async () => set(await Promise.all(operations.map((one) => {
      const path = { destination: one.destination, id: one.id };
      return isRunning(one) ? ask(api.GET("/v1/destinations/{destination}/operations/{id}", { params: { path } })).catch(() => one) : one;
    }))), 700);
    return () => clearTimeout(timer);
  }, [operations]);
  return [operations, set];
}

export const cancelOperation = (operation: Operation) =>
  ask(api.POST("/v1/destinations/{destination}/operations/{id}/cancel", {
    params: { path: { destination: operation.destination, id: operation.id } },
  }));

/** Counts, asks, runs, and shows the progress. `run(true)` only counts; with `uncounted`, which says how many there are, it is not called.
 *  It may be several operations, one for each shard. */
export function BulkDialog({ title, verb, explain, run, uncounted, onClose, danger = false, isSpread }: {
  title: string; verb: string; explain: string; run: (isDryRun: boolean) => Promise<Operation | Operation[]>;
  uncounted?: string; onClose: (isDone: boolean) => void; danger?: boolean; isSpread?: boolean;
}) {
  const [matched, setMatched] = useState<number | null>(null);
  const [operations, setOperations] = useOperations();
  const { isBusy, error, run: act } = useAction();
  useEffect(() => {
    if (uncounted === undefined) act(async () => setMatched([await run(true)].flat().reduce((sum, one) => sum + one.matched, 0)));
  }, []);
  const hasBegun = operations.length > 0;
  const cancel = () => Promise.all(operations.map((one) => (isRunning(one) ? cancelOperation(one) : one)));
  return (
    <Dialog title={title} onClose={() => onClose(hasBegun)}>
      <p>{explain}</p>
      <ErrorNotice error={error} />
      {hasBegun ? operations.map((one) => (
        <div key={one.destination}>{operations.length > 1 && <h3>{one.destination}</h3>}<Progress operation={one} isSpread={isSpread} /></div>
      )) : uncounted !== undefined ? <p class="big">{uncounted}</p> : matched === null ? (!error && <p role="status">Counting …</p>) : (
        <p class="big" role="status"><b>{count(matched)}</b> {matched === 1 ? "message" : "messages"} selected</p>
      )}
      <div class="actions is-end">
        {operations.some(isRunning) && <Button onClick={() => act(async () => setOperations(await cancel()))}>Cancel the operation</Button>}
        {hasBegun ? <Button kind="main" onClick={() => onClose(true)}>Close</Button> : (
          <>
            <Button onClick={() => onClose(false)}>Cancel</Button>
            <Button kind={danger ? "danger" : "main"} disabled={isBusy || (uncounted === undefined && !matched)} onClick={() => act(async () => setOperations([await run(false)].flat()))}>
              {verb} {matched === null ? "" : count(matched)}
            </Button>
          </>
        )}
      </div>
    </Dialog>
  );
}
