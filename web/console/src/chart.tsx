// A line chart of the last minutes, drawn by uPlot.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  /** The custom property that holds its colour. */
  color: string;
  dash?: number[];
}

const property = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart({ label, lines, data, unit }: { label: string; lines: Line[]; data: (number | null)[][]; unit: string }) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const holder = element.current!;
    const make = () => {
      plot.current?.destroy();
      const axis = {
        stroke: property("--muted"), font: "12px system-ui",
        grid: { stroke: property("--line"), width: 1 }, ticks: { show: false },
      };
      plot.current = new uPlot({
        width: holder.clientWidth || 300, height: 170, legend: { show: false }, cursor: { show: false },
        scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.15, 1)] } },
        axes: [{ ...axis, space: 80, values: (_, all) => all.map((one) => new Date(one * 1000).toTimeString().slice(0, 8)) }, { ...axis, size: 62, values: (_, all) => all.map((one) => `${one}${unit}`) }],
        series: [{}, ...lines.map((line) => ({
          label: line.label, stroke: property(line.color), width: 2, dash: line.dash, points: { show: false },
        }))],
      }, data as uPlot.AlignedData, holder);
    };
    make();
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: holder.clientWidth, height: 170 }));
    observer.observe(holder);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", make);
    document.addEventListener("theme", make);
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", make);
      document.removeEventListener("theme", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(data as uPlot.AlignedData), [data]);
  return (
    <figure class="chart">
      <figcaption>
        {lines.map((line) => <span key={line.label} class="chart-key"><i class={`stroke ${line.dash ? "is-dashed" : ""}`} style={{ borderColor: `var(${line.color})` }} />{line.label}</span>)}
      </figcaption>
      <div ref={element} role="img" aria-label={label} />
    </figure>
  );
}
