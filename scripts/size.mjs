// Counts lines, as issues and decisions name them: all lines of Rust and Lua files without tests. Also lists pairs of
// product files that share 20 lines in a row (the same after trimming, blank lines left out).
//
//   node scripts/size.mjs
import { lstatSync, readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

const ROOT = new URL("..", import.meta.url).pathname;
const SHARED = 20;
// What `serve` does not need.
const BESIDE = /^crates\/(cli|client|tools|faults)\//;
// Crates that are not in the program.
const OTHERS = /^crates\/(bench|testing)\//;
// A program of its own.
const CONNECT = /^crates\/connect\//;

function* files(folder, end) {
  for (const name of readdirSync(join(ROOT, folder)).sort()) {
    const path = `${folder}/${name}`;
    if (lstatSync(join(ROOT, path)).isSymbolicLink()) continue;
    if (statSync(join(ROOT, path)).isDirectory()) yield* files(path, end);
    else if (name.endsWith(end)) yield path;
  }
}

/** The lines of a file, without its own tests. */
function linesOf(path) {
  const text = readFileSync(join(ROOT, path), "utf8");
  const [product] = text.split(/\n#\[cfg\((?:test|all\(test, .*\))\)\]\nmod \w+ \{/);
  return product.replace(/\n$/, "").split("\n");
}

const isTest = (path) => /(^|\/)tests?(\/|\.rs$)/.test(path);
const count = (paths) => paths.reduce((sum, path) => sum + linesOf(path).length, 0);

const crates = [...files("src", ".rs"), ...files("crates", ".rs")].filter((path) => !OTHERS.test(path));
const product = crates.filter((path) => !isTest(path));
const [rust, connect] = [false, true].map((is) => product.filter((path) => CONNECT.test(path) === is));
const lua = [...files("lua", ".lua")];
const tests = [...files("tests", ".rs"), ...files("crates/testing", ".rs"), ...crates.filter(isTest)];
const inner = product.map((path) => readFileSync(join(ROOT, path), "utf8").split("\n").length - 1 - linesOf(path).length);
console.log(`Rust                          ${count(rust)}`);
console.log(`Rust that serve needs         ${count(rust.filter((path) => !BESIDE.test(path)))}`);
console.log(`reseq-connect                 ${count(connect)}`);
console.log(`Lua                           ${count(lua)}`);
console.log(`tests and what they share     ${count(tests) + inner.reduce((sum, lines) => sum + Math.max(0, lines), 0)}`);

const seen = new Map();
const pairs = new Map();
for (const path of [...product, ...lua]) {
  const lines = linesOf(path).map((line) => line.trim()).filter((line) => line !== "");
  for (let at = 0; at + SHARED <= lines.length; at += 1) {
    const part = lines.slice(at, at + SHARED).join("\n");
    const other = seen.get(part);
    if (other !== undefined && other !== path) pairs.set(`${other} ${path}`, lines[at]);
    else seen.set(part, path);
  }
}
console.log(`pairs that share ${SHARED} lines     ${pairs.size}`);
for (const [pair, line] of pairs) console.log(`  ${pair}: ${line}`);
