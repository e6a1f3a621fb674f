import { constants } from "node:os";

const closers = new Set<() => Promise<void>>();
const handled = new Set<NodeJS.Signals>();
/** npm passes on the Ctrl-C that the process has got too. */
const SAME_SIGNAL_MS = 500;

/**
 * Closes on a signal, together with all others that asked for it. Ends the process then, as the signal without a
 * listener would, unless the program listens to the signal too. A second signal ends it at once. Returns how to stop
 * listening.
 */
export function closeOnSignals(signals: NodeJS.Signals[], close: () => Promise<void>): () => void {
  closers.add(close);
  for (const signal of signals) {
    if (handled.has(signal)) continue;
    handled.add(signal);
    process.on(signal, onSignal);
  }
  return () => closers.delete(close);
}

let closingSince: number | undefined;

function onSignal(signal: NodeJS.Signals): void {
  const isOurs = process.listenerCount(signal) === 1;
  if (closingSince !== undefined) {
    if (isOurs && performance.now() - closingSince > SAME_SIGNAL_MS) process.exit(128 + constants.signals[signal]);
    return;
  }
  closingSince = performance.now();
  void Promise.allSettled([...closers].map((close) => close())).then(() => {
    closingSince = undefined;
    if (isOurs) process.exit(0);
  });
}
