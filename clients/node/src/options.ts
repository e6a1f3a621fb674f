/**
 * Refuses an option that does not exist, with the nearest name: a mistyped one would be ignored. `elsewhere` says what to
 * write for options of other clients, whose nearest name here means something else.
 */
export function checkOptions(options: object | undefined, known: object, of: string, elsewhere: Record<string, string> = {}): void {
  if (options === undefined) return;
  if (typeof options !== "object" || options === null) throw new TypeError(`the options of ${of} must be an object`);
  for (const name in options) {
    if (Object.hasOwn(known, name)) continue;
    const names = Object.keys(known);
    const meant = Object.hasOwn(elsewhere, name) ? elsewhere[name] : `\`${nearest(name, names)}\``;
    throw new TypeError(`unknown option \`${name}\` of ${of} (did you mean ${meant}?), expected one of ${names.join(", ")}`);
  }
}

/**
 * As the server chooses it (`crates/domain/src/nearest.rs`): a name that begins or ends with the other is the best. Before
 * that, the name as the API writes it, such as `lease_ms`.
 */
function nearest(name: string, known: string[]): string {
  const plain = (text: string) => text.replaceAll("_", "").toLowerCase();
  const cost = (one: string) => {
    const edits = distance(plain(name), plain(one));
    const holds = one.startsWith(name) || one.endsWith(name) || name.endsWith(one);
    return edits === 0 ? -1 : edits + (holds ? 0 : 1000);
  };
  return known.reduce((best, one) => (cost(one) < cost(best) ? one : best));
}

/** How many characters to insert, remove or replace (Levenshtein). */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let at = 1; at <= one.length; at += 1) {
    const next = [at];
    for (let to = 1; to <= other.length; to += 1) {
      const replaced = row[to - 1]! + (one[at - 1] === other[to - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[to]! + 1, next[to - 1]! + 1));
    }
    row = next;
  }
  return row[other.length]!;
}

export function whole(value: number, name: string, min: number, max: number): number {
  if (!Number.isInteger(value) || value < min || value > max) throw new RangeError(`${name} must be a whole number from ${min} to ${max}`);
  return value;
}

const DAY_MS = 86_400_000;

/** A time limit for an attempt; 0 is none. */
export const attemptLimit = (ms: number) => whole(ms, "attemptTimeoutMs", 0, 30 * DAY_MS) || Infinity;
