const closers = new Set<() => Promise<void>>();
const handled = new Set<NodeJS.Signals>();

/**
 * Closes on a signal, together with all others that asked for it. Ends the process then, as the signal without a
 * listener would, unless the program listens to the signal too. Returns how to stop listening.
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

let isClosing = false;

function onSignal(signal: NodeJS.Signals): void {
  if (isClosing) return;
  isClosing = true;
  const isAlone = process.listenerCount(signal) === 1;
  void Promise.allSettled([...closers].map((close) => close())).then(() => {
    isClosing = false;
    if (isAlone) process.exit(0);
  });
}
