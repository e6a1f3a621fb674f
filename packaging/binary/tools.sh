#!/usr/bin/env bash
# Installs what builds the programs into $TOOLS: zig as the linker, from PyPI, and cargo-zigbuild.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/../lib.sh"
[ -x "$ZIG/bin/cargo-zigbuild" ] && exit
say "installing zig $ZIG_VERSION and cargo-zigbuild $ZIGBUILD_VERSION into $ZIG"
python3 -m venv "$ZIG" || die "Python's venv is missing: apt-get install python3-venv"
"$ZIG/bin/pip" install --quiet "ziglang==$ZIG_VERSION" "cargo-zigbuild==$ZIGBUILD_VERSION"
