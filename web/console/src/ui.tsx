// Parts that the pages share.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Refused } from "./api.ts";
import { count, many } from "./format.ts";

export const STATES = ["waiting", "processing", "delayed", "ready", "delivering", "halted"] as const;
export type Counted = (typeof STATES)[number];
const SETTLED = new Set(["delivered", "dropped", "dead_lettered", "cancelled"]);

/** The letter that stands for a state, so that colour is not the only sign. */
const LETTERS: Record<string, string> = {
  waiting: "w",
  processing: "p",
  ready: "✓",
  delivering: "→",
  halted: "!",
  delayed: "z",
  damaged: "?",
  delivered: "✓",
  dropped: "×",
  dead_lettered: "†",
  cancelled: "×",
};
export const letter = (state: string) => LETTERS[state] ?? "·";

/** The class that colours a state. A pending message that will leave without delivery is a tombstone. */
export const tone = (state: string, isPending = false) =>
  isPending && SETTLED.has(state) ? "tombstone" : state === "damaged" ? "halted" : state;

/** A state. A message that has failed and is tried again has the colour of a warning. */
export function Chip({ state, isPending = false, attempts = 0 }: { state: string; isPending?: boolean; attempts?: number }) {
  const isFailing = attempts > 0 && ["waiting", "delayed", "ready"].includes(state);
  return (
    <span class={`chip is-${isFailing ? "mild" : tone(state, isPending)}`}>
      <span aria-hidden="true">{isFailing ? "↻" : letter(state)}</span> {state.replace("_", "-")}{isFailing && `, ${many(attempts, "failed attempt")}`}
    </span>
  );
}

/** A bar with a part for each state. */
export function Bar({ counts, max }: { counts: Partial<Record<Counted, number>>; max: number }) {
  const text = STATES.filter((state) => counts[state]).map((state) => `${count(counts[state])} ${state}`);
  const all = STATES.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  return (
    <span class="bar" role="img" aria-label={text.join(", ") || "nothing pending"} title={text.join(", ")}>
      <span class="bar-fill" style={{ width: `${max ? Math.max(all ? 1 : 0, (all / max) * 100) : 0}%` }}>
        {STATES.map((state) =>
          counts[state] ? <span key={state} class={`is-${state}`} style={{ flexGrow: counts[state] }} /> : null,
        )}
      </span>
    </span>
  );
}

export function Legend({ counts }: { counts: Partial<Record<Counted, number>> }) {
  return (
    <ul class="legend">
      {STATES.map((state) => (
        <li key={state}>
          <span class={`swatch is-${state}`} aria-hidden="true">{letter(state)}</span>
          {state} <b class="number">{count(counts[state] ?? 0)}</b>
        </li>
      ))}
    </ul>
  );
}

export function Notice({ kind = "error", children }: { kind?: "error" | "info" | "good"; children: ComponentChildren }) {
  return <div class={`notice is-${kind}`} role={kind === "error" ? "alert" : "status"}>{children}</div>;
}

export function ErrorNotice({ error }: { error: unknown }) {
  if (!error) return null;
  const problem = error instanceof Refused ? error.problem : {};
  return (
    <Notice>
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {problem.errors && problem.errors.length > 1 && (
        <ul>{problem.errors.map((one, at) => <li key={at}>{one.pointer ?? one.parameter ?? one.header}: {one.detail}</li>)}</ul>
      )}
    </Notice>
  );
}

export function Head({ title, children, sub }: { title: ComponentChildren; sub?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="head">
      <div>
        <h1>{title}</h1>
        {sub && <p class="sub">{sub}</p>}
      </div>
      {children && <div class="actions">{children}</div>}
    </header>
  );
}

/** What a tab is about, and what can be done there. */
export function TabHead({ sub, children }: { sub: ComponentChildren; children?: ComponentChildren }) {
  return <div class="tab-head"><p class="sub">{sub}</p>{children && <div class="actions">{children}</div>}</div>;
}

export function Panel({ title, children, tools, class: name = "" }: {
  title?: ComponentChildren; children: ComponentChildren; tools?: ComponentChildren; class?: string;
}) {
  return (
    <section class={`panel ${name}`}>
      {title && <div class="panel-head"><h2>{title}</h2>{tools}</div>}
      {children}
    </section>
  );
}

/** The same width as in style.css. */
const PHONE = "(max-width: 46rem)";

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** A table that scrolls by itself where it is too wide. On a phone a row has two lines, and each cell its heading. */
export function Table({ label, children }: { label: string; children: ComponentChildren }) {
  const table = useRef<HTMLTableElement>(null);
  useLayoutEffect(() => {
    if (!matchMedia(PHONE).matches || !table.current) return;
    const names = [...(table.current.tHead?.rows[0]?.cells ?? [])].map((one) => one.textContent ?? "");
    for (const row of table.current.tBodies[0]?.rows ?? []) [...row.cells].forEach((cell, at) => { cell.dataset.label = names[at]; });
  });
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table ref={table}>{children}</table>
    </div>
  );
}

type ButtonProps = JSX.IntrinsicElements["button"] & { kind?: "main" | "danger" | "plain" };
export function Button({ kind = "plain", class: name, ...rest }: ButtonProps) {
  return <button type="button" {...rest} class={`button is-${kind} ${name ?? ""}`} />;
}

/** A modal window. Escape closes it, and the focus returns to where it was. */
export function Dialog({ title, onClose, children, wide = false }: {
  title: string; onClose: () => void; children: ComponentChildren; wide?: boolean;
}) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={element} class={wide ? "wide" : ""} aria-labelledby="dialog-title"
      onCancel={(event) => { event.preventDefault(); onClose(); }}>
      <div class="dialog-head">
        <h2 id="dialog-title">{title}</h2>
        <Button onClick={onClose} aria-label="Close">×</Button>
      </div>
      {children}
    </dialog>
  );
}

export function Field({ label, hint, error, children }: {
  label: string; hint?: ComponentChildren; error?: string; children: ComponentChildren;
}) {
  return (
    <label class={`field ${error ? "has-error" : ""}`}>
      <span class="field-label">{label}</span>
      {children}
      {error ? <span class="field-error">{error}</span> : hint && <span class="field-hint">{hint}</span>}
    </label>
  );
}

/** Runs an action, and shows that it runs and what went wrong. */
export function useAction() {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const run = async (action: () => Promise<unknown>) => {
    setBusy(true);
    setError(null);
    try {
      await action();
      return true;
    } catch (caught) {
      setError(caught);
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { isBusy, error, run, setError };
}

/** How long to wait before loading again after nobody could answer, in ms. */
const AGAIN_MS = 5000;

/** Loads once for each set of inputs, again on request, and again and again while Redis or Reseq does not answer. */
export function useLoad<T>(load: () => Promise<T>, inputs: unknown[]) {
  const [state, set] = useState<{ value: T | null; error: unknown; isBusy: boolean }>({ value: null, error: null, isBusy: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    set((now) => ({ ...now, isBusy: true }));
    load().then(
      (value) => isCurrent && set({ value, error: null, isBusy: false }),
      (error) => isCurrent && set((now) => ({ value: now.value, error, isBusy: false })),
    );
    return () => {
      isCurrent = false;
    };
  }, [...inputs, turn]);
  const again = () => setTurn((now) => now + 1);
  useEffect(() => {
    if (state.isBusy || !(state.error instanceof Refused) || (state.error.problem.status ?? 503) < 503) return;
    const timer = setInterval(() => !document.hidden && again(), AGAIN_MS);
    return () => clearInterval(timer);
  }, [state]);
  return { ...state, again };
}

/** Downloads a body as a file. */
export function download(name: string, type: string, content: BlobPart) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
