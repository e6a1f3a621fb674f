// Numbers, times and durations for people.
const whole = new Intl.NumberFormat("en");
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (value: number | null | undefined) => (value == null ? "–" : whole.format(value));

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
