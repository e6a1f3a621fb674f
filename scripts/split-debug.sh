#!/usr/bin/env bash
# Moves the symbols and line tables of a program into PROGRAM.debug beside it. The program keeps the name of that file:
# where both files are, the backtrace of a panic has the names of functions, files and lines.
#
#   scripts/split-debug.sh PROGRAM
set -euo pipefail

say() { printf 'split-debug: %s\n' "$*" >&2; }

program=$1
if ! command -v objcopy >/dev/null; then
  say "objcopy is missing (package binutils); $program keeps its line tables"
  exit 0
fi
# A program without line tables was split before; its PROGRAM.debug must stay.
sections=$(objdump --section-headers "$program")
[[ $sections == *.debug_line* ]] || exit 0

# Into new files: cargo links the program to a copy of its own, which must stay whole.
objcopy --only-keep-debug "$program" "$program.debug"
objcopy --strip-all --add-gnu-debuglink="$program.debug" "$program" "$program.stripped"
mv "$program.stripped" "$program"
say "$(du -k "$program" | cut -f 1) KiB $program, $(du -k "$program.debug" | cut -f 1) KiB $program.debug"
