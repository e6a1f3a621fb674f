// The page is named by the part of the address after #, for example #/lanes/erp?key=acct-7.
import { useEffect, useState } from "preact/hooks";

export interface Route {
  parts: string[];
  query: URLSearchParams;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The tabs of a destination, by the addresses that they had as pages of their own. */
const MOVED: Record<string, string> = { lanes: "lane", messages: "messages", "dead-letters": "dead-letters", history: "history", operations: "operations" };

function current(): Route {
  const [path = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const query = new URLSearchParams(search);
  const [page = "", destination] = parts;
  if (!Object.hasOwn(MOVED, page)) return { parts, query };
  const { sequence, ...rest } = Object.fromEntries(query);
  const to = destination === undefined ? href(["destinations"]) : tab(destination, MOVED[page]!, rest, ...(sequence === undefined ? [] : [sequence]));
  history.replaceState(null, "", to);
  return current();
}

export function useRoute(): Route {
  const [route, set] = useState(current);
  useEffect(() => {
    const changed = () => set(current());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/** The address of a page. Parameters that are undefined are left out. */
export function href(parts: (string | number)[], query: Record<string, string | number | undefined> = {}): string {
  const pairs = Object.entries(query).filter((pair) => pair[1] !== undefined && pair[1] !== "\u0000");
  const search = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}${search ? `?${search}` : ""}`;
}

/** The address of a tab of a destination, or of a message in it: its sequence, and its shard if the destination has several. */
export const tab = (destination: string, name: string, query: Record<string, string | number | undefined> = {}, ...message: (string | number)[]) =>
  href(["destinations", destination, name, ...message], query);

export const go = (to: string) => {
  location.hash = to;
};
