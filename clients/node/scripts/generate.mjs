// Writes src/api.ts: the types of the HTTP API, from the document that a running Reseq serves.
//
//   RESEQ_URL=http://127.0.0.1:8080 npm run generate --workspace clients/node
//
// With `--check` it writes nothing, and fails if the file is not current.
import { readFileSync, writeFileSync } from "node:fs";
import openapiTs, { astToString } from "openapi-typescript";

const url = process.env.RESEQ_URL ?? "http://127.0.0.1:8080";
const file = new URL("../src/api.ts", import.meta.url);

const response = await fetch(`${url}/openapi.json`);
if (!response.ok) throw new Error(`${url}/openapi.json: ${response.status}`);
const document = await response.json();
delete document.servers;
const types = astToString(await openapiTs(document));
const text = `// Generated from /openapi.json by scripts/generate.mjs. Do not edit.\n\n${types}`;

if (!process.argv.includes("--check")) writeFileSync(file, text);
else if (readFileSync(file, "utf8") !== text) {
  console.error("src/api.ts is not current: start Reseq, then run `npm run generate --workspace clients/node`");
  process.exit(1);
}
