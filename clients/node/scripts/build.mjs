// Builds dist/cjs, and dist/esm, which has the same exports of the same objects: one build, so that `instanceof` holds
// and signals are handled once, also in a program that loads the package in both ways.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const require = createRequire(import.meta.url);
process.chdir(root);
rmSync("dist", { recursive: true, force: true });
execFileSync(process.execPath, [require.resolve("typescript/bin/tsc"), "--project", "tsconfig.json"], { stdio: "inherit" });
mkdirSync("dist/esm");
writeFileSync("dist/esm/package.json", `${JSON.stringify({ type: "module" })}\n`);
const commonjs = `${JSON.stringify({ type: "commonjs" })}\n`;
writeFileSync("dist/cjs/package.json", commonjs);
for (const entry of ["index", "testing", "opentelemetry"]) {
  const names = Object.keys(require(`${root}dist/cjs/${entry}.js`)).map((name) => (name === "default" ? "noDefault as default" : name));
  writeFileSync(`dist/esm/${entry}.js`, `export { ${names.join(", ")} } from "../cjs/${entry}.js";\n`);
  writeFileSync(`dist/esm/${entry}.d.ts`, `export * from "../cjs/${entry}.js";\n`);
}
// `scripts/node-client.sh` looks at its time: it is the last.
writeFileSync("dist/cjs/package.json", commonjs);
