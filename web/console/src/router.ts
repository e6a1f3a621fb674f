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

function current(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
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

export const go = (to: string) => {
  location.hash = to;
};
