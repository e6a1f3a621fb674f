#!/usr/bin/env bash
# Prints the folder of a Python environment with the packages of tests/NAME/requirements.txt. Makes it first, in
# cargo's target directory, if it is missing or old.
#
#   scripts/python-env.sh NAME
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
name=$1
home="$("$root/scripts/target-dir.sh")/$name"
wanted="$root/tests/$name/requirements.txt"

install() {
  rm -rf "$home"
  if ! python3 -m venv "$home" >/dev/null 2>&1; then
    # Debian has the module in a package of its own.
    rm -rf "$home"
    echo "setup: installing python3-venv, for tests" >&2
    sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv
    python3 -m venv "$home"
  fi
  "$home/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$home/installed"
}

if [ "${2-}" = --really-install ]; then
  install
  exit 0
fi

# 75: it is missing and cannot be made here, for example because there is no network.
if ! cmp -s "$wanted" "$home/installed"; then
  install_log=$(mktemp)
  trap 'rm -f "$install_log"' EXIT
  # In a shell of its own: `set -e` does not act in a command whose status is checked.
  if ! bash "$0" "$name" --really-install >"$install_log" 2>&1; then
    cat "$install_log" >&2
    exit 75
  fi
fi
printf '%s\n' "$home"
