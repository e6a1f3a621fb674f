#!/usr/bin/env bash
# Tests the npm packages as a user gets them: test.sh [--quick]
set -euo pipefail
# shellcheck source=packaging/npm/stranger.sh
. "$(dirname "$0")/stranger.sh" npm

run=(npx --yes --registry "$URL" reseq-server)
expect 0 "reseq $VERSION" "${run[@]}" --version
expect 2 "try '--help'" "${run[@]}" --no-such-option

# missing TEXT MODULE FLAGS...: what the command says, with this module loaded, after `npm install` with these flags.
missing() {
  rm -rf "$T/home/node_modules"
  expect 0 "" npm install --registry "$URL" --no-audit --no-fund reseq-server "${@:3}"
  expect 1 "$1, or build Reseq from its source." node "--require=$2" node_modules/.bin/reseq-server --version
}
echo "process.report.getReport = () => ({ header: {} });" >"$T/musl.cjs"
echo "Object.defineProperty(process, 'arch', { value: 's390x' });" >"$T/s390x.cjs"
missing "install reseq-server again on this machine, without --omit=optional" node:fs --omit=optional
missing "install reseq-server again on this machine, without --omit=optional" node:fs --cpu=arm
missing "this Linux has musl: use a Debian image, not Alpine" "$T/musl.cjs" --libc=musl
platforms=$(cd "$T/home" && node -p "Object.keys(require('reseq-server/package.json').optionalDependencies)
  .map((each) => each.replace('@reseq/server-', '')).join(' or ')")
missing "there is no program for linux-s390x: use $platforms" "$T/s390x.cjs"

[ "${1-}" != --quick ] || exit 0
rm -r "$T/home/node_modules" "$T/home/.npm" # so that npx fetches the packages again
expect 0 "Complete and in order: yes" "${run[@]}" demo
stops INT - "${run[@]}" demo
stops TERM "" "${run[@]}" demo
