// The events of the page that is shown: one stream, and none while the page is hidden.
import { useEffect, useState } from "preact/hooks";
import { signedOut } from "./api.ts";

export type Query = Record<string, string | number | undefined>;

export interface Live<T> {
  value: T | null;
  error: string | null;
  isConnected: boolean;
}

/** Why a stream is refused: the browser does not tell. */
async function refusal(url: string): Promise<string | null> {
  const stop = new AbortController();
  try {
    const answer = await fetch(url, { credentials: "same-origin", signal: stop.signal });
    if (answer.ok) return null;
    if (answer.status === 401) signedOut();
    return (await answer.json()).detail;
  } catch {
    return "Reseq does not answer. Is the process running?";
  } finally {
    stop.abort();
  }
}

/** Follows a view. With `null`, nothing. */
export function useLive<T>(query: Query | null): Live<T> {
  const [live, set] = useState<Live<T>>({ value: null, error: null, isConnected: false });
  const search = query && new URLSearchParams(
    Object.entries(query).filter((pair) => pair[1] !== undefined).map(([name, value]) => [name, String(value)]),
  ).toString();
  useEffect(() => {
    set({ value: null, error: null, isConnected: false });
    if (search === null) return;
    let source: EventSource | null = null;
    let again: ReturnType<typeof setTimeout> | undefined;
    const close = () => {
      clearTimeout(again);
      source?.close();
      source = null;
    };
    const open = () => {
      close();
      if (document.hidden) return;
      source = new EventSource(`/console/events?${search}`);
      source.onmessage = (event) => {
        const value = JSON.parse(event.data);
        if (typeof value.error === "string") set((now) => ({ ...now, error: value.error, isConnected: true }));
        else set({ value, error: null, isConnected: true });
      };
      source.onerror = () => {
        // The stream ends once a minute, and is opened again. A refusal closes it for good.
        if (source?.readyState !== EventSource.CLOSED) return;
        set((now) => ({ ...now, isConnected: false }));
        const here = source;
        refusal(`/console/events?${search}`).then((error) => {
          if (source !== here) return;
          if (error) set((now) => ({ ...now, error }));
          again = setTimeout(open, 3000);
        });
      };
    };
    const visible = () => (document.hidden ? close() : open());
    document.addEventListener("visibilitychange", visible);
    open();
    return () => {
      document.removeEventListener("visibilitychange", visible);
      close();
    };
  }, [search]);
  return live;
}
