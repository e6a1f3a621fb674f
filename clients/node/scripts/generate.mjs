// Writes src/api.ts: the types of the HTTP API, from the OpenAPI document of the service.
//
//   npm run generate --workspace clients/node
//
// With `--check` it writes nothing, and fails if the file is not current.
import { readFileSync, writeFileSync } from "node:fs";
import openapiTs, { astToString } from "openapi-typescript";

const source = new URL("../../../web/api-docs/openapi.json", import.meta.url);
const file = new URL("../src/api.ts", import.meta.url);

const document = JSON.parse(readFileSync(source, "utf8"));
const types = astToString(await openapiTs(document));
const text = `// Generated from /openapi.json by scripts/generate.mjs. Do not edit.\n\n${types}`;

if (!process.argv.includes("--check")) writeFileSync(file, text);
else if (readFileSync(file, "utf8") !== text) {
  console.error("src/api.ts is not current: run `npm run generate --workspace clients/node`");
  process.exit(1);
}
