#!/usr/bin/env bash
# Unpacks newer servers than this system's (Redis 8, Valkey) from Debian's packages into a folder, for
# tests: nothing is installed. They bring their own C library. Optional; `make setup` does without.
#
#   scripts/newer-servers.sh [FOLDER]      (newer-servers where cargo builds, which is target/ as a rule)
#
# The packages come from the mirror of Debian that this system's own apt uses (so a local mirror or a
# proxy stays in use). These variables override that:
#
#   DEBIAN_MIRROR   the URL of a mirror; needed where apt has none, such as on Ubuntu
#   SUITE           the suite to take the packages from (trixie)
#
# Prints the programs that it made, one a line, for RESEQ_TEST_REDIS_SERVER.
set -euo pipefail
cd "$(dirname "$0")/.."

SUITE=${SUITE:-trixie}
folder=${1:-$(scripts/target-dir.sh)/newer-servers}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
packages=(redis-server redis-tools valkey-server valkey-tools libc6 libssl3t64 libatomic1
  libjemalloc2 liblzf1 libstdc++6 libgcc-s1 libsystemd0 libcap2 libzstd1 zlib1g)

say() { printf 'newer-servers: %s\n' "$*" >&2; }

command -v apt-get >/dev/null && command -v dpkg >/dev/null || {
  say "this needs apt-get and dpkg; install Redis 8 or Valkey yourself, and set RESEQ_TEST_REDIS_SERVER"
  exit 1
}

mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(SITE)' 'Created-By: Packages' |
  awk '$1 == "Debian" && $2 == "Debian" && !found { print $3; found = 1 }')}
[ -n "$mirror" ] || {
  say "apt has no mirror of Debian (or needs 'apt-get update' first); set DEBIAN_MIRROR to the URL of one"
  exit 1
}

# The same mirror with another suite, and all state in the folder.
state=$folder/apt
mkdir -p "$state"/{lists/partial,cache/archives/partial}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] $mirror $SUITE main" >"$state/sources.list"
options=(-qq -o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=
  -o Acquire::Languages=none -o Dir::Etc::preferencesparts=/dev/null)

if [ ! -x "$folder/redis-server" ] || [ ! -x "$folder/valkey-server" ]; then
  say "fetching from $SUITE"
  apt-get "${options[@]}" update >&2
  (cd "$state" && apt-get "${options[@]}" download "${packages[@]/%//$SUITE}" >&2)
  for package in "$state"/*.deb; do dpkg -x "$package" "$folder/root"; done
fi

libraries=$(dirname "$(find "$folder/root/usr/lib" -name libc.so.6 | head -1)")
loader=$(find "$libraries" -name 'ld-linux*.so.*' | head -1)
for server in redis-server valkey-server; do
  # The packages link the server to a tool that looks at the name it is called by.
  cat >"$folder/$server" <<SERVER
#!/bin/sh
exec "$loader" --argv0 $server --library-path "$libraries" "$folder/root/usr/bin/$server" "\$@"
SERVER
  chmod 755 "$folder/$server"
  say "$("$folder/$server" --version)"
  printf '%s\n' "$folder/$server"
done
