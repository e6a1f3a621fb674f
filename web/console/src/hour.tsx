// Charts of the last hour. The pod keeps it, so that they do not begin when the page is opened.
import { useEffect, useState } from "preact/hooks";
import { signed } from "./api.ts";
import { Chart } from "./chart.tsx";
import { count, rate } from "./format.ts";

/** A point: its time in seconds, in and out per second, what is pending, and how much of that has failed before, if it is known. */
export type Point = [at: number, incoming: number, outgoing: number, pending: number, retrying: number | null];

interface Kept { at_ms: number[]; in_per_second: (number | null)[]; out_per_second: (number | null)[]; pending: number[]; retrying: number[] }
type Columns = (number | null)[][];

const HOUR_S = 3600;
const NOTHING: Columns = [[], [], [], [], []];
const RATES = [{ label: "in per second", color: "--blue" }, { label: "out per second", color: "--green", dash: [7, 4] }];
const PENDING = [{ label: "pending", color: "--blue" }, { label: "of these, with failed attempts", color: "--amber", dash: [7, 4] }];

/** The points of the last hour: those that the pod has kept, of all destinations or of one, and then those of the page. */
export function useHour(now: Point | null, destination?: string): Columns {
  const [columns, set] = useState(NOTHING);
  useEffect(() => {
    let isOver = false;
    set(NOTHING);
    const load = async () => {
      const answer = await signed(`/console/hour${destination === undefined ? "" : `?${new URLSearchParams({ destination })}`}`);
      if (!answer.ok) return;
      const kept: Kept = await answer.json();
      const before = [kept.at_ms.map((at) => at / 1000), kept.in_per_second, kept.out_per_second, kept.pending, kept.retrying];
      if (!isOver) set((own) => before.map((line, at) => [...line.filter((_, one) => before[0]![one]! < (own[0]![0] ?? Infinity)), ...own[at]!]));
    };
    load().catch(() => { /* The charts begin now. */ });
    return () => { isOver = true; };
  }, [destination]);
  useEffect(() => {
    if (now) set((all) => all.map((line, at) => [...line.slice(Math.max(0, all[0]!.findIndex((one) => one! > now[0] - HOUR_S))), now[at]!]));
  }, [now]);
  return columns;
}

export function RatesChart({ columns: [at = [], incoming = [], outgoing = []] }: { columns: Columns }) {
  const label = `In ${rate(incoming.at(-1) ?? 0)} and out ${rate(outgoing.at(-1) ?? 0)} messages per second`;
  return <Chart label={label} unit="" lines={RATES} data={[at, incoming, outgoing]} />;
}

export function PendingChart({ columns: [at = [], , , pending = [], retrying = []] }: { columns: Columns }) {
  return <Chart label={`${count(pending.at(-1) ?? 0)} messages pending`} unit="" lines={PENDING} data={[at, pending, retrying]} />;
}
