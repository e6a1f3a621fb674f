// The frame of all pages: navigation, session, light and dark.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { currentSession, may, onSignedOut, signIn, signOut, type Session } from "./api.ts";
import { time, timeZone } from "./format.ts";
import type { Live } from "./live.ts";
import { go, href, useRoute, type Route } from "./router.ts";
import { Button, ErrorNotice, Field, useAction } from "./ui.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { DestinationsPage } from "./pages/destinations.tsx";
import { DestinationPage, tabName } from "./pages/destination.tsx";
import { SearchPage } from "./pages/search.tsx";
import { TopicsPage } from "./pages/topics.tsx";
import { TokensPage } from "./pages/tokens.tsx";
import { PodsPage } from "./pages/pods.tsx";
import { AuditPage } from "./pages/audit.tsx";
import { DeliveriesPage } from "./pages/deliveries.tsx";
import { DoctorPage } from "./pages/doctor.tsx";

/** How often a page that is visible prolongs the session, in ms. */
const PROLONG_MS = 300_000;

/** The pages: the first part of the address, and the name. */
const PAGES: [string, string][] = [
  ["overview", "Overview"], ["destinations", "Destinations"], ["deliveries", "Deliveries"], ["topics", "Topics"], ["pods", "Pods"], ["doctor", "Doctor"],
  ["tokens", "Tokens"], ["audit", "Audit"],
];

/** Says whether the numbers on the page are current. */
export function LiveSign({ live }: { live: Live<unknown> }) {
  const [text, name] = live.isStale ? [`not current${live.readAt ? `: read at ${time(live.readAt.toISOString()).slice(11, 19)}` : ""}`, "is-bad"] : live.isConnected ? ["live", "is-on"] : live.value ? ["connecting", "is-off"] : ["loading", "is-off"];
  return <span class={`live ${name}`} role="status"><span aria-hidden="true" />{text}</span>;
}

export function App() {
  const [session, setSession] = useState<Session | null | undefined>(undefined);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    onSignedOut(() => setSession(null));
    currentSession().then(setSession, (caught) => {
      setSession(null);
      setError(caught);
    });
    const prolong = async () => {
      if (!document.hidden && !(await currentSession())) setSession(null);
    };
    const timer = setInterval(() => prolong().catch(() => {}), PROLONG_MS);
    return () => clearInterval(timer);
  }, []);
  if (session === undefined) return null;
  if (session === null) return <SignIn error={error} onDone={setSession} />;
  return <Frame session={session} onSignOut={() => signOut().finally(() => setSession(null))} />;
}

function SignIn({ error, onDone }: { error: unknown; onDone: (session: Session | null) => void }) {
  const [token, setToken] = useState("");
  const action = useAction();
  return (
    <main class="sign-in">
      <form onSubmit={(event) => { event.preventDefault(); action.run(async () => onDone(await signIn(token))); }}>
        <Mark />
        <h1>Reseq</h1>
        <Field label="Token" hint="Make one with reseq tokens create. It needs at least the scope read.">
          <input type="password" autocomplete="current-password" required value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        </Field>
        <ErrorNotice error={action.error ?? error} />
        <Button kind="main" type="submit" disabled={action.isBusy}>Sign in</Button>
      </form>
    </main>
  );
}

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#12305c" /><rect x="5" y="12" width="6" height="8" rx="1.5" fill="#5fd394" />
      <rect x="13" y="12" width="6" height="8" rx="1.5" fill="#7fb5ff" /><rect x="21" y="12" width="6" height="8" rx="1.5" fill="#5fd394" />
      <path d="M12 7v18" stroke="#fff" stroke-width="1.5" />
    </svg>
  );
}

type Theme = "auto" | "light" | "dark";
function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, set] = useState<Theme>(() => (localStorage.getItem("theme") as Theme) ?? "auto");
  useEffect(() => {
    if (theme === "auto") {
      localStorage.removeItem("theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("theme", theme);
      document.documentElement.dataset.theme = theme;
    }
    document.dispatchEvent(new Event("theme"));
  }, [theme]);
  return [theme, set];
}

function Frame({ session, onSignOut }: { session: Session; onSignOut: () => void }) {
  const route = useRoute();
  const [isOpen, open] = useState(false);
  const [theme, setTheme] = useTheme();
  const main = useRef<HTMLElement>(null);
  const page = route.parts[0] ?? "overview";
  const name = page === "search" ? `Search: ${route.query.get("q") ?? ""}` : PAGES.find(([path]) => path === page)?.[1] ?? "Reseq";
  const [, destination, shownTab, sequence, shard = destination] = route.parts;
  useEffect(() => {
    document.title = [sequence && `Message ${sequence}`, shard, page === "destinations" && destination ? tabName(shownTab) : name, "Reseq"].filter(Boolean).join(" · ");
    open(false);
  }, [page, name, destination, shownTab, sequence, shard]);
  const shown = PAGES.filter(([path]) => !["tokens", "audit"].includes(path) || (may(session, "admin") && !session.destinations))
    .filter(([path]) => !["pods", "doctor"].includes(path) || !session.destinations);
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href={href(["overview"])}><Mark /> Reseq</a>
        <Search destination={page === "destinations" ? destination : undefined} />
        <Button class="menu" aria-expanded={isOpen} aria-controls="nav" onClick={() => open(!isOpen)}>Menu</Button>
      </header>
      <nav id="nav" class={isOpen ? "is-open" : ""} aria-label="Pages">
        <ul>
          {shown.map(([path, label]) => (
            <li key={path}>
              <a href={href(path === "deliveries" && destination ? [path, destination] : [path])} aria-current={path === page ? "page" : undefined}>{label}</a>
            </li>
          ))}
        </ul>
        <div class="nav-foot">
          <label>Colours{" "}
            <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
              <option value="auto">of the system</option><option value="light">light</option><option value="dark">dark</option>
            </select>
          </label>
          <p class="who">{session.needs_token ? <>Signed in as <b>{session.caller}</b></> : "No token is needed"}<br />{session.scopes.join(", ")}{!may(session, "operate") && " (read-only)"}</p>
          {session.needs_token && <Button onClick={onSignOut}>Sign out</Button>}
          <p class="who"><a href="/docs">API</a> · Reseq {session.version}</p>
        </div>
      </nav>
      <main id="main" ref={main} tabIndex={-1}>
        <Page route={route} page={page} session={session} />
        <p class="muted small zone">Times are in {timeZone()}.</p>
      </main>
    </div>
  );
}

/** The search of all pages: of a destination, in this one first. The key / leads to it. */
function Search({ destination }: { destination?: string }) {
  const [text, setText] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || document.querySelector("dialog") || (event.target as HTMLElement).matches("input, textarea, select")) return;
      event.preventDefault();
      field.current?.select();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return (
    <form role="search" class="search" onSubmit={(event) => { event.preventDefault(); if (text.trim()) go(href(["search"], { q: text.trim(), in: destination })); }}>
      <input ref={field} type="search" aria-label="Search by id, key or destination" aria-keyshortcuts="/" placeholder="Id, key or destination"
        value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <Button type="submit">Search</Button>
    </form>
  );
}

function Page({ route, page, session }: { route: Route; page: string; session: Session }): ComponentChildren {
  const destination = route.parts[1];
  switch (page) {
    case "overview": return <OverviewPage />;
    case "destinations": return destination ? <DestinationPage key={destination} session={session} destination={destination} route={route} /> : <DestinationsPage session={session} query={route.query} />;
    case "search": return <SearchPage key={String(route.query)} text={route.query.get("q") ?? ""} first={route.query.get("in") ?? undefined} />;
    case "topics": return <TopicsPage session={session} />;
    case "tokens": return <TokensPage />;
    case "pods": return <PodsPage />;
    case "audit": return <AuditPage />;
    case "doctor": return <DoctorPage />;
    case "deliveries": return <DeliveriesPage key={destination} destination={destination ?? ""} />;
  }
  return <p>There is no such page. <a href={href(["overview"])}>Overview</a></p>;
}
