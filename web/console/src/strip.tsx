// The strip of a lane: pending messages in their order, to the right of the gate; those that left last, to its
// left. A message keeps its element, so that one sees it change its colour in its place and pass the gate.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { duration, many } from "./format.ts";
import { letter, tone } from "./ui.tsx";

export interface Cell {
  sequence: number;
  state: string;
  age_ms: number;
  attempts: number;
  due_ms?: number;
  withdrawing?: boolean;
  worker?: string;
  lease_expires_ms?: number;
}
export interface Left {
  sequence: number;
  state: string;
  settled_ms: number;
  total_ms: number;
}

const CELL = 46;
const GATE = 30;

export function Strip({ cells, left, hasMore, selected, onSelect }: {
  cells: Cell[]; left: Left[]; hasMore: boolean; selected: number | null; onSelect: (sequence: number) => void;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(900);
  useLayoutEffect(() => {
    const measure = () => setWidth(frame.current?.clientWidth ?? 900);
    measure();
    const observer = new ResizeObserver(measure);
    if (frame.current) observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const before = Math.min(left.length ? 24 : 0, Math.max(2, Math.floor((width * 0.3) / CELL)));
  const gate = Math.max(2, Math.floor((width * 0.3) / CELL)) * CELL;
  const shownLeft = left.slice(-Math.max(before, 0));
  const all = [
    ...shownLeft.map((one, at) => ({
      ...one, isPending: false, isFailing: false, x: gate - (shownLeft.length - at) * CELL,
      title: `${one.sequence}: ${one.state.replace("_", "-")} after ${duration(one.total_ms)}`,
    })),
    ...cells.map((one, at) => ({
      ...one, isPending: true, isFailing: one.attempts > 0 && ["waiting", "delayed", "ready"].includes(one.state), x: gate + GATE + at * CELL,
      title: `${one.sequence}: ${one.state.replace("_", "-")}${one.withdrawing ? ", withdrawing" : ""}, arrived ${duration(one.age_ms)} ago`
        + (one.attempts ? `, ${many(one.attempts, "failed attempt")}` : ""),
    })),
  ];
  const current = all.some((one) => one.sequence === selected) ? selected : cells[0]?.sequence ?? all[0]?.sequence;
  const inner = gate + GATE + cells.length * CELL + (hasMore ? 70 : 0);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = all.findIndex((one) => one.sequence === Number((event.target as HTMLElement).dataset.sequence));
    const to = all[Math.max(0, Math.min(all.length - 1, at + step))];
    frame.current?.querySelector<HTMLElement>(`[data-sequence="${to?.sequence}"]`)?.focus();
  };
  return (
    <div class="strip" ref={frame}>
      <div class="strip-inner" style={{ width: `${Math.max(inner, width)}px` }} role="group"
        aria-label="Messages of the lane: left of the gate those that have left, right of it those that are pending"
        onKeyDown={onKeyDown}>
        <span class="strip-label" style={{ transform: `translateX(${Math.max(0, gate - 74)}px)` }}>left</span>
        <span class="strip-label" style={{ transform: `translateX(${gate + GATE}px)` }}>pending, in order of arrival</span>
        <span class="gate" style={{ transform: `translateX(${gate + GATE / 2 - 3}px)` }} aria-hidden="true" />
        {all.map((one) => (
          <button key={one.sequence} type="button" data-sequence={one.sequence} title={one.title}
            aria-pressed={one.sequence === selected} tabIndex={one.sequence === current ? 0 : -1}
            class={`cell is-${tone(one.state, one.isPending)} ${one.isPending ? "" : "has-left"} ${one.isFailing ? "is-failing" : ""}`}
            style={{ transform: `translateX(${one.x}px)` }} onClick={() => onSelect(one.sequence)}>
            <span class="cell-letter" aria-hidden="true">{one.isFailing ? "↻" : letter(one.state)}</span>
            <span class="cell-number">{String(one.sequence).slice(-5)}</span>
            <span class="hidden">{one.title}</span>
          </button>
        ))}
        {hasMore && <span class="strip-more" style={{ transform: `translateX(${inner - 66}px)` }}>and more</span>}
      </div>
    </div>
  );
}
