#!/usr/bin/env bash
# Tests the wheel as a user gets it, with uv, pip and pipx: test.sh [--quick]
set -euo pipefail
# shellcheck source=packaging/npm/stranger.sh
. "$(dirname "$0")/../npm/stranger.sh" pypi

tools=$TOOLS/python
say "using uv $UV_VERSION and pipx $PIPX_VERSION in $tools; installing them if they are missing"
[ -f "$tools/bin/pip" ] || python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check "uv==$UV_VERSION" "pipx==$PIPX_VERSION"
ln -sf "$tools"/bin/{uv,uvx,pipx} "$T/bin"

uvx=(uvx --from reseq-server reseq)
expect 0 "reseq $VERSION" "${uvx[@]}" --version
expect 0 "" python3 -m venv "$T/home/venv"
expect 0 "" venv/bin/pip install --disable-pip-version-check --no-cache-dir reseq-server
expect 0 "reseq $VERSION" venv/bin/python -m reseq_server --version
expect 0 "reseq $VERSION" venv/bin/reseq --version
expect 2 "try '--help'" venv/bin/reseq-server --no-such-option
expect 0 "reseq $VERSION" pipx run reseq-server --version

[ "${1-}" != --quick ] || exit 0
expect 0 "Complete and in order: yes" "${uvx[@]}" demo
expect 0 "Complete and in order: yes" venv/bin/python -m reseq_server demo
stops INT - "${uvx[@]}" demo
stops TERM "" "${uvx[@]}" demo
