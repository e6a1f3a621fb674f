#!/usr/bin/env bash
# Checks the dependencies against deny.toml, or lists them. Installs the tool that it needs with `cargo install`.
#
#   scripts/supply-chain.sh deny    cargo-deny: licences, duplicates, sources, and known vulnerabilities
#   scripts/supply-chain.sh sbom    cargo-cyclonedx: the software bill of materials of reseq, and of reseq-connect
set -euo pipefail
cd "$(dirname "$0")/.."

has() { command -v "$1" >/dev/null 2>&1; }

case "${1:-}" in
deny)
  has cargo-deny || cargo install --locked cargo-deny
  cargo deny --workspace --locked check licenses bans sources
  # The database of vulnerabilities is a repository on GitHub.
  cargo deny --workspace fetch db || {
    echo "supply-chain: vulnerabilities were NOT checked: github.com cannot be reached" >&2
    exit 1
  }
  cargo deny --workspace --locked check advisories
  ;;
sbom)
  has cargo-cyclonedx || cargo install --locked cargo-cyclonedx
  folder=$(scripts/target-dir.sh)/sbom
  mkdir -p "$folder"
  trap 'rm -f reseq.cdx.json crates/*/reseq.cdx.json' EXIT
  list() { cargo cyclonedx --format json --spec-version 1.5 --target all --no-build-deps --override-filename reseq.cdx --quiet "$@"; }
  list --manifest-path crates/connect/Cargo.toml --all-features
  sed "s|file://$PWD|file://|g" crates/connect/reseq.cdx.json >"$folder/reseq-connect.cdx.json"
  list
  # Without the path of this folder.
  sed "s|file://$PWD|file://|g" reseq.cdx.json >"$folder/reseq.cdx.json"
  echo "$folder/reseq.cdx.json: $(grep -c '"purl": "pkg:cargo/' "$folder/reseq.cdx.json") packages"
  ;;
*)
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
