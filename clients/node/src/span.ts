// `JSON.parse` loses what JavaScript cannot hold, such as 64-bit numbers. This finds the text of one value in a
// document that `JSON.parse` has accepted, so it need not check anything.

const WHITE = new Set([" ", "\n", "\r", "\t"]);

/** The text of the value at `path`. */
export function spanOf(text: string, path: (string | number)[]): string {
  let at = skipWhite(text, 0);
  for (const step of path) at = typeof step === "number" ? element(text, at, step) : member(text, at, step);
  return text.slice(at, endOf(text, at));
}

/** The texts of the elements of the array at `path`. */
export function elementsOf(text: string, path: (string | number)[]): string[] {
  const array = spanOf(text, path);
  const elements: string[] = [];
  for (let at = skipWhite(array, 1); array[at] !== undefined && array[at] !== "]"; ) {
    const end = endOf(array, at);
    elements.push(array.slice(at, end));
    at = next(array, end);
  }
  return elements;
}

function skipWhite(text: string, at: number): number {
  while (WHITE.has(text[at]!)) at += 1;
  return at;
}

/** Where the element `index` of the array at `at` begins. */
function element(text: string, at: number, index: number): number {
  at = skipWhite(text, at + 1);
  for (let left = index; left > 0; left -= 1) at = next(text, endOf(text, at));
  return at;
}

/** Where the last member `name` of the object at `at` begins. */
function member(text: string, at: number, name: string): number {
  let found = -1;
  at = skipWhite(text, at + 1);
  while (text[at] === '"') {
    const end = endOf(text, at);
    const value = skipWhite(text, skipWhite(text, end) + 1);
    if (JSON.parse(text.slice(at, end)) === name) found = value;
    at = next(text, endOf(text, value));
  }
  if (found < 0) throw new Error(`there is no member ${name}`);
  return found;
}

/** Behind a comma, or behind the end of the array or object. */
const next = (text: string, at: number) => skipWhite(text, skipWhite(text, at) + 1);

/** Behind the value that begins at `at`. */
function endOf(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return endOfString(text, at);
  if (first !== "{" && first !== "[") {
    const rest = /[^,\]}\s]*/y;
    rest.lastIndex = at;
    return at + rest.exec(text)![0].length;
  }
  let depth = 0;
  for (; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at) - 1;
    else if (character === "{" || character === "[") depth += 1;
    else if ((character === "}" || character === "]") && (depth -= 1) === 0) return at + 1;
  }
  throw new Error("the value has no end");
}

function endOfString(text: string, at: number): number {
  for (at += 1; text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
  return at + 1;
}
