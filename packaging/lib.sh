# What the scripts of packaging/ share. Source it from a script that runs under `set -euo pipefail`.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=packaging/versions.env
. "$ROOT/packaging/versions.env"

# Where artefacts are built, and where tools and downloads are kept from one run to the next.
DIST=${DIST:-$("$ROOT/scripts/target-dir.sh")/dist}
TOOLS=${RESEQ_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/reseq-tools}
mkdir -p "$DIST" "$TOOLS"

# The virtual environment with zig.
ZIG=$TOOLS/zig-$ZIG_VERSION

VERSION=$("$ROOT/scripts/version.sh")
VERSION=${VERSION%% *}
# The time of the commit: all files in artefacts bear it, so that a second build makes the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null || echo 1700000000)}
export SOURCE_DATE_EPOCH

# The programs for an architecture (x86_64, aarch64): reseq, reseq-connect, and the static redis-server that comes along.
programs() { echo "$DIST/programs/$1"; }

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

# glibc_of PROGRAM...: the oldest glibc that has all the functions that programs use; nothing if they use none.
glibc_of() { grep -aoh 'GLIBC_2\.[0-9]*' "$@" | sed 's/GLIBC_//' | sort --version-sort | tail -n 1 || true; }

# reproducible_tar OPTION...: writes a tar archive; the same files give the same bytes.
reproducible_tar() {
  tar --create --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX "$@"
}

# fetch URL SHA256 FILE: downloads a file once and checks it.
fetch() {
  [ -f "$3" ] && echo "$2  $3" | sha256sum --check --status && return
  say "fetching $1"
  curl --fail --silent --show-error --location --output "$3.part" "$1"
  echo "$2  $3.part" | sha256sum --check --status || die "$1 does not have the checksum in packaging/versions.env"
  mv "$3.part" "$3"
}

# debian_files ARCHITECTURE FOLDER PACKAGE...: unpacks packages of Debian, and prints a line of JSON for each. It has package
# lists of its own, because the apt of this machine may not know the architecture.
debian_files() {
  local apt=$TOOLS/apt-$1 file
  local options=(-qq -o APT::Architecture="$1" -o APT::Architectures="$1" -o APT::Sandbox::User=root
    -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache")
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$2.debs"
  apt-get "${options[@]}" update >&2
  (cd "$2.debs" && apt-get "${options[@]}" download "${@:3}" >&2) || die "cannot download packages of Debian: ${*:3}"
  for file in "$2.debs"/*; do
    dpkg-deb --extract "$file" "$2"
    # shellcheck disable=SC2016
    dpkg-deb --show --showformat '{"type": "library", "name": "${Package}", "version": "${Version}"}\n' "$file"
  done
}
