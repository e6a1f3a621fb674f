// Builds dist/esm and dist/cjs. Node decides by the nearest package.json which of the two a file is.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
process.chdir(root);
rmSync("dist", { recursive: true, force: true });
for (const [kind, type] of [["esm", "module"], ["cjs", "commonjs"]]) {
  mkdirSync(`dist/${kind}`, { recursive: true });
  const options = kind === "cjs" ? ["--module", "commonjs", "--moduleResolution", "node10"] : [];
  execFileSync(process.execPath, [tsc, "--project", "tsconfig.json", "--outDir", `dist/${kind}`, ...options], {
    stdio: "inherit",
  });
  writeFileSync(`dist/${kind}/package.json`, `${JSON.stringify({ type })}\n`);
}
