#!/usr/bin/env bash
# Installs what the Node.js client (clients/node) needs and builds it, where that is missing or not current. Needs the
# registry only if packages are missing. Afterwards all scripts in this repository can `import "reseq"`.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'node-client: %s\n' "$*" >&2; }

command -v npm >/dev/null 2>&1 || {
  say "npm is missing. Install Node 20 or newer (https://nodejs.org) and run this again."
  exit 1
}

# npm writes this file last.
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  say "installing the packages that build and test it"
  npm ci --ignore-scripts --no-audit --no-fund --silent
  touch node_modules/.package-lock.json
fi

built=clients/node/dist/cjs/package.json # the build writes it last
if [ ! -e $built ] || [ -n "$(find clients/node/src clients/node/package.json clients/node/tsconfig.json clients/node/scripts/build.mjs -newer $built)" ]; then
  say "building it"
  npm run --silent build --workspace clients/node
fi
