#!/usr/bin/env bash
# The console of Reseq (web/console), whose build is part of the program.
#
#   scripts/console.sh build        builds web/console/dist
#   scripts/console.sh check        fails if web/console/dist is not what its sources give
#   scripts/console.sh screenshots  draws the pictures of the documentation
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'console: %s\n' "$*" >&2; }

scripts/node-client.sh
case "${1:-}" in
build)
  npm run --silent build --workspace web/console -- --logLevel warn
  ;;
check)
  built=$(mktemp -d)
  trap 'rm -rf "$built"' EXIT
  CONSOLE_DIST="$built" npm run --silent build --workspace web/console -- --logLevel warn
  diff -r "$built" web/console/dist >/dev/null || {
    say "web/console/dist is not current: run \`make build-console\` and commit it"
    exit 1
  }
  say "web/console/dist is current"
  ;;
screenshots)
  node web/console/scripts/screenshots.mjs
  ;;
*)
  say "usage: scripts/console.sh build | check | screenshots"
  exit 2
  ;;
esac
