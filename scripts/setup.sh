#!/usr/bin/env bash
# Installs redis-server if it is missing, and checks that cargo is there. With the argument `tests` also what only tests
# need: promtool, chromium, PostgreSQL, systemd-analyze, schemathesis, and the Node.js client.
set -euo pipefail

say() { printf 'setup: %s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif has sudo; then
    sudo "$@"
  else
    say "this needs root and there is no sudo; run as root: $*"
    return 1
  fi
}

# Debian's package starts a Redis on port 6379 by itself, which nobody asked for: Reseq starts its
# own on a private socket. While a policy-rc.d that answers 101 is in place, no service starts, by
# whichever way the package asks. One that is there already is the administrator's and stays.
POLICY=/usr/sbin/policy-rc.d

forbid_service_start() {
  [ -e "$POLICY" ] && return 0
  # The trap comes first, so that no way out of here leaves the file behind.
  trap 'as_root rm -f "$POLICY"' EXIT
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$POLICY" >/dev/null
  as_root chmod 755 "$POLICY"
}

install_redis() {
  if ! has apt-get; then
    say "redis-server is missing. Install Redis 7.0 or newer, or Valkey, with this system's"
    say "package manager (macOS: brew install redis; Fedora: dnf install valkey; Arch: pacman -S"
    say "valkey; Alpine: apk add redis), and run this again."
    return 1
  fi
  say "installing redis-server"
  forbid_service_start
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends redis-server
  # The service that has just come with the package would start at the next boot.
  if [ -d /run/systemd/system ]; then
    as_root systemctl --quiet disable redis-server
  fi
}

# install TESTS PACKAGE...: installs what only these tests need. No service of the packages starts, now or at the next boot.
install() {
  if ! has apt-get; then
    say "$2 is missing; Reseq runs without it, $1 do not"
    return
  fi
  say "installing $2, for $1"
  forbid_service_start
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${@:2}"
  if [ -d /run/systemd/system ] && systemctl --quiet is-enabled "$2" 2>/dev/null; then
    as_root systemctl --quiet disable "$2"
  fi
}

install_for_tests() {
  has promtool || install "the tests of the alert rules" prometheus
  has chromium || has chromium-browser || has google-chrome ||
    install "the tests of the console" chromium fonts-dejavu-core
  has postgres || compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null ||
    install "the tests of reseq-connect and one of the Node.js client" postgresql
  has systemd-analyze || install "the test of the systemd units" systemd

  # Only the test of the HTTP API against its document needs it.
  if has python3; then
    "$(dirname "$0")/schemathesis.sh" --install ||
      say "schemathesis cannot be installed; the test of the HTTP API against its document does not run"
  else
    say "python3 is missing; Reseq runs without it, its test of the HTTP API does not"
  fi

  if ! has node; then
    say "node is missing; Reseq runs without it, the Node.js client and the recipes do not: https://nodejs.org"
  else
    "$(dirname "$0")/node-client.sh" ||
      say "the Node.js client cannot be built; Reseq runs without it, the recipes and their tests do not"
  fi
}

if ! has cargo; then
  say "cargo is missing. Install Rust 1.89 or newer (https://rustup.rs) and run this again."
  exit 1
fi
has redis-server || has valkey-server || install_redis
if [ "${1:-}" = tests ]; then install_for_tests; fi
