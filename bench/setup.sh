#!/usr/bin/env bash
# Installs what the peers need and builds their programs. Everything that it makes is in bench/, apart from
# the packages of the system.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf 'bench/setup: %s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

# A package of a server starts it by itself, on its standard port. While a policy-rc.d that answers 101 is in
# place none starts. One that is there already is the administrator's and stays.
POLICY=/usr/sbin/policy-rc.d

install_packages() {
  if [ "$(id -u)" -ne 0 ] || ! has apt-get; then
    say "missing: $*. Install them with this system's package manager, or run this as root where there is"
    say "apt-get. bench/run leaves out what it cannot run."
    return 0
  fi
  if [ ! -e "$POLICY" ]; then
    trap 'rm -f "$POLICY"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$POLICY"
    chmod 755 "$POLICY"
  fi
  say "installing $*"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
  # A service that has just come with its package would start at the next boot.
  if [ -d /run/systemd/system ]; then
    for package in "$@"; do systemctl --quiet disable "$package" 2>/dev/null || true; done
  fi
}

missing=()
has redis-server || missing+=(redis-server)
[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || missing+=(rabbitmq-server)
has npm || missing+=(nodejs npm)
has mvn || missing+=(maven openjdk-17-jdk-headless)
[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"

if has npm; then
  say "BullMQ, amqplib"
  (cd node && npm ci --ignore-scripts --no-audit --no-fund --silent)
fi
if has cargo; then
  say "the programs in Rust"
  (cd rust && cargo build --release --locked --quiet)
fi
if has mvn; then
  say "Camel, Parallel Consumer, Kafka"
  (cd java && mvn --batch-mode --quiet process-classes)
fi
