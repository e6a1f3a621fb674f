# For both test.sh: builds the packages, and is a user with an empty home and no Redis. Source it with npm or pypi.
# shellcheck shell=bash
# shellcheck source=packaging/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

fail() { tail -n 20 "$T/out" >&2; die "$*"; }

# The processes of the user, by program and by environment.
processes() {
  for each in /proc/[0-9]*; do
    [[ $(readlink "$each/exe") != "$T"/* ]] && ! grep -qsaF "HOME=$T" "$each/environ" || echo "${each#/proc/}"
  done
}

# expect CODE TEXT COMMAND...: the command exits with this code and leaves no process; its last line contains this text.
expect() {
  local code=0 begin=$SECONDS
  "${user[@]}" "${@:3}" >"$T/out" 2>&1 || code=$?
  [[ $code = "$1" && $(tail -n 1 "$T/out") = *"$2"* ]] || fail "${*:3}: exit code $code; expected $1 and '$2'"
  [ -z "$(processes)" ] || fail "${*:3}: left processes: $(processes)"
  say "ok, $((SECONDS - begin)) s: ${*:3}: $(tail -n 1 "$T/out")"
}

# stops SIGNAL TO COMMAND...: the signal ends all processes of the demo. TO is - for the group (Ctrl-C), or empty.
stops() {
  local code=0 begin
  # What an earlier one printed would look like its own.
  : >"$T/out"
  setsid "${user[@]}" "${@:3}" >"$T/out" 2>&1 &
  until grep -q "^sent" "$T/out"; do kill -0 $! || fail "${*:3} ended too early"; sleep 0.1; done
  begin=$SECONDS
  kill -s "$1" -- "$2$!"
  wait $! || code=$?
  while [ -n "$(processes)" ]; do [ $((SECONDS - begin)) -lt 30 ] || fail "$1 left: $(processes)"; sleep 0.2; done
  say "ok, $((SECONDS - begin)) s: $1 ends ${*:3}: exit code $code"
}

T=$(mktemp -d)
registry=
trap 'kill $registry $(processes) 2>"$T/out" || true; wait; rm -rf "$T"' EXIT
"$ROOT/packaging/$1/build.sh"
sha256sum "$DIST/$1"/* >"$T/sums"
"$ROOT/packaging/$1/build.sh" 2>"$T/out"
sha256sum --check --status "$T/sums" || die "$1: a second build made other bytes"

mkdir "$T/home" "$T/bin" "$T/tmp" "$T/site"
ln -s /usr/bin/* "$T/bin"
for tool in node npm npx python3; do ln -sf "$(command -v $tool)" "$T/bin/$tool"; done
rm -f "$T"/bin/{redis,valkey}-server
python3 "$ROOT/packaging/npm/registry.py" "$DIST" "$T/site" >"$T/url" 2>"$T/requests" &
registry=$!
until [ -s "$T/url" ]; do kill -0 $registry; sleep 0.1; done
URL=$(cat "$T/url")
user=(env -i -C "$T/home" --default-signal HOME="$T/home" TMPDIR="$T/tmp" PATH="$T/bin"
  PIP_CONFIG_FILE=/dev/null PIP_INDEX_URL="$URL/simple/" UV_DEFAULT_INDEX="$URL/simple/")
