// Numbers, times and durations for people.
const whole = new Intl.NumberFormat("en");
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (value: number | null | undefined) => (value == null ? "–" : whole.format(value));

/** A failure in one form everywhere: the status, if there is one, and what the other side said. Many details begin with the status. */
export function failureText(error: { status?: number | null; kind?: string; detail: string } | null | undefined): string | undefined {
  if (!error) return undefined;
  const { status, detail } = error;
  return (status && !detail.startsWith("status ") ? `status ${status}${detail && ": "}${detail}` : detail) || error.kind;
}

/** A number and what is counted: 1 pod, 2 pods. */
export const many = (value: number, one: string) => `${count(value)} ${one}${value === 1 ? "" : "s"}`;

export const rate = (value: number) => (value >= 100 ? whole.format(Math.round(value)) : tenths.format(value));

export function duration(ms: number | null | undefined): string {
  if (ms == null) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

/** A setting with its unit, which is the end of its name. */
export function setting(name: string, value: unknown): string {
  if (value == null || value === "") return "–";
  if (typeof value !== "number") return Array.isArray(value) ? value.join(", ") || "–" : typeof value === "object" ? Object.entries(value).map(([key, one]) => `${key}: ${one}`).join(", ") || "–" : String(value);
  const scaled = (units: [number, string][]) => {
    const [size, unit] = units.find(([size]) => value >= size && value % size === 0) ?? units.at(-1)!;
    return `${whole.format(value / size)} ${unit}`;
  };
  if (name.endsWith("_ms")) return scaled([[86_400_000, value === 86_400_000 ? "day" : "days"], [3_600_000, "h"], [60_000, "min"], [1000, "s"], [1, "ms"]]);
  if (/bytes(_max)?$/.test(name)) return scaled([[1_073_741_824, "GiB"], [1_048_576, "MiB"], [1024, "KiB"], [1, "bytes"]]);
  return `${whole.format(value)}${/per_second(_max)?$/.test(name) ? " per second" : ""}`;
}

/** Numbers as ranges: 0–7, 9. */
export function ranges(numbers: number[]): string {
  const found: [number, number][] = [];
  for (const one of [...numbers].sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last && one === last[1] + 1) last[1] = one;
    else found.push([one, one]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(", ");
}

/** The time zone of all times that are shown. */
export function timeZone(): string {
  const ahead = -new Date().getTimezoneOffset();
  const pad = (value: number) => String(Math.floor(value)).padStart(2, "0");
  return `${Intl.DateTimeFormat().resolvedOptions().timeZone}, UTC${ahead < 0 ? "−" : "+"}${pad(Math.abs(ahead) / 60)}:${pad(Math.abs(ahead) % 60)}`;
}

export function time(text: string | null | undefined): string {
  if (!text) return "–";
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return text;
  const pad = (value: number, digits = 2) => String(value).padStart(digits, "0");
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
}

export const percent = (value: number | null | undefined) =>
  value == null ? "–" : value === 0 ? "0 %" : `${value < 0.001 ? "< 0.1" : tenths.format(value * 100)} %`;

/** The time in a field of type datetime-local, as RFC 3339; undefined if it is empty. */
export const instant = (local: string) => (local ? new Date(local).toISOString() : undefined);

/** Text with characters that hide or turn the text around them (the same as in the log of Reseq) as escapes. */
export const visible = (text: string) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (one) => `\\u{${one.charCodeAt(0).toString(16)}}`);

/** The name of a lane. */
export const laneName = (key: string | null | undefined) => (key == null ? "all messages" : key === "" ? "no key" : key);
