// The events of the page that is shown: one stream, and none while the page is hidden.
import { useEffect, useState } from "preact/hooks";
import { signed, signedOut } from "./api.ts";
import { lines } from "./lines.ts";

/** How long to wait after a stream that did not last. */
const AGAIN_MS = 3000;
/** Numbers are not current if none came for this long, or for several times as long as usual, but not for longer than the last. */
const STALE_MS = 10_000;
const STALE = 5;
const STALE_MAX_MS = 30_000;

export type Query = Record<string, string | number | undefined>;

export interface Live<T> {
  value: T | null;
  error: string | null;
  isConnected: boolean;
  /** True if what is shown may have changed: nothing new has come, or Reseq could not read it. */
  isStale: boolean;
  /** When the last value came. */
  readAt: Date | null;
}

const NOTHING = { value: null, error: null, isConnected: false, isStale: false, readAt: null };

/** Follows a view. With `null`, nothing. */
export function useLive<T>(query: Query | null): Live<T> {
  const [live, set] = useState<Live<T>>(NOTHING);
  const search = query && new URLSearchParams(
    Object.entries(query).filter((pair) => pair[1] !== undefined).map(([name, value]) => [name, String(value)]),
  ).toString();
  useEffect(() => {
    set(NOTHING);
    if (search === null) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last = performance.now();
    let stop = new AbortController();
    const close = () => stop.abort();
    const take = (line: string) => {
      if (!line.startsWith("data:")) return;
      const value = JSON.parse(line.slice(5));
      if (typeof value.error === "string") set((now) => ({ ...now, error: value.error, isConnected: true, isStale: true }));
      else set({ value, error: null, isConnected: true, isStale: false, readAt: new Date() });
      const gap = performance.now() - last;
      last += gap;
      clearTimeout(timer);
      timer = setTimeout(() => set((now) => ({ ...now, isStale: true })), Math.min(Math.max(STALE_MS, gap * STALE), STALE_MAX_MS));
    };
    const open = async () => {
      close();
      if (document.hidden) return;
      const { signal } = (stop = new AbortController());
      while (!signal.aborted) {
        const begun = performance.now();
        let [isOpen, error] = [false, "Reseq does not answer. Is the process running?"];
        try {
          const answer = await signed(`/console/events?${search}`, { signal });
          isOpen = answer.ok;
          if (answer.status === 401) signedOut();
          if (!answer.body || !isOpen) error = (await answer.json()).detail;
          else for await (const some of lines(answer.body)) some.forEach(take);
        } catch { /* There is no answer, or it broke off. */ }
        if (signal.aborted) return;
        // The stream ends once a minute, and is opened again.
        if (isOpen && performance.now() - begun > AGAIN_MS) continue;
        set((now) => ({ ...now, isConnected: false, isStale: true, error: isOpen ? now.error : error }));
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    };
    const visible = () => (document.hidden ? close() : open());
    document.addEventListener("visibilitychange", visible);
    open();
    return () => {
      document.removeEventListener("visibilitychange", visible);
      clearTimeout(timer);
      close();
    };
  }, [search]);
  return live;
}

/** After a question, the next one waits for at least this many times as long as the answer took, but not for longer than this. */
const REST = 10;
const REST_MAX_MS = 30_000;

/** Asks again and again while the page is visible. The last answer stays when one fails. */
export function usePoll<T>(load: () => Promise<T>, everyMs: number, inputs: unknown[]): { value: T | null; error: unknown } {
  const [state, set] = useState<{ value: T | null; error: unknown }>({ value: null, error: null });
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    const next = async () => {
      clearTimeout(timer);
      if (document.hidden) return;
      const begun = performance.now();
      const now = await load().then((value) => ({ value, error: null }), (error: unknown) => ({ error }));
      if (isOver) return;
      set((before) => ({ ...before, ...now }));
      timer = setTimeout(next, Math.max(everyMs, Math.min((performance.now() - begun) * REST, REST_MAX_MS)));
    };
    document.addEventListener("visibilitychange", next);
    next();
    return () => {
      isOver = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", next);
    };
  }, inputs);
  return state;
}
