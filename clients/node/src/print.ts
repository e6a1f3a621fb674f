const SAME_ERROR_EVERY_MS = 10_000;

/** Prints to stderr what nobody listens to; the same text not again and again. */
export function printer(): (text: string) => void {
  const printed = new Map<string, number>();
  return (text) => {
    const now = performance.now();
    if (now - (printed.get(text) ?? -Infinity) < SAME_ERROR_EVERY_MS) return;
    if (printed.size > 100) printed.clear();
    printed.set(text, now);
    console.error(`reseq: ${text}`);
  };
}
