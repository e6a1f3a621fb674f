#!/usr/bin/env bash
# Runs schemathesis, which tests the HTTP API against its OpenAPI document, with these arguments. Installs it into
# cargo's target directory first, if it is missing; with `--install` it does only that. Exits with 75 if it cannot be
# installed.
set -euo pipefail
home=$("$(dirname "$0")/python-env.sh" schemathesis)
[ "${1-}" = --install ] || exec "$home/bin/st" "$@"
