#!/usr/bin/env bash
# Fetches the jars of Kafka that scripts/kafka.xml names, with Maven, for tests of reseq-connect, and prints their folder.
# Needs Java 17 and mvn.
#
#   scripts/kafka.sh [FOLDER]      (kafka where cargo builds, which is target/ as a rule)
#   scripts/kafka.sh --feature     prints the cargo feature for Kafka, if this Rust can build it
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'kafka: %s\n' "$*" >&2; }

if [ "${1-}" = --feature ]; then
  needed=1.95 found=$(rustc --version | cut -d ' ' -f 2)
  if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -1)" = "$needed" ]; then
    echo reseq-connect/kafka
  else
    say "Rust $found is older than $needed, which the client of Kafka needs: reseq-connect is built and tested without Kafka"
  fi
  exit
fi

folder=${1:-$(scripts/target-dir.sh)/kafka}
if ! cmp -s scripts/kafka.xml "$folder/pom.xml"; then
  for program in java mvn; do
    command -v $program >/dev/null || {
      say "$program is missing; install Java 17 and Maven (Debian: apt-get install openjdk-17-jre-headless maven)"
      exit 1
    }
  done
  say "fetching the jars"
  rm -rf "$folder"
  mkdir -p "$folder/new"
  cp scripts/kafka.xml "$folder/new/pom.xml"
  mvn -q -B -f "$folder/new/pom.xml" dependency:copy-dependencies -DoutputDirectory="$(realpath "$folder")/jars" >&2
  mv "$folder/new/pom.xml" "$folder/pom.xml"
fi
realpath "$folder/jars"
