#!/usr/bin/env bash
# Prints what `reseq --version` says of this build: the version, and the commit if this is a git checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
echo "$version${commit:+ ($commit)}"
