#!/usr/bin/env node
// Runs the server if the package reseq-server is installed. This package, the client, does not depend on it.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
try {
  require.resolve("reseq-server/package.json");
} catch {
  console.error("reseq: the server is not installed: run npx reseq-server instead, or npm install reseq-server first.");
  process.exit(1);
}
require("reseq-server/bin/reseq.js");
