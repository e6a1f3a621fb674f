#!/usr/bin/env bash
# Moves the symbols and line tables of a program into PROGRAM.debug beside it. The program keeps the name of that file:
# where both files are, the backtrace of a panic has the names of functions, files and lines.
#
#   scripts/split-debug.sh PROGRAM
set -euo pipefail

say() { printf 'split-debug: %s\n' "$*" >&2; }

program=$1
# Rust's own objcopy knows all architectures; Debian's package binutils only the one of this machine.
rust=$(rustc --print sysroot)
host=$(rustc --version --verbose | sed -n 's/^host: //p')
objcopy() { LD_LIBRARY_PATH=$rust/lib "$rust/lib/rustlib/$host/bin/rust-objcopy" "$@"; }
if ! objcopy --version >/dev/null 2>&1; then
  command -v objcopy >/dev/null || { say "objcopy is missing (package binutils); $program keeps its line tables"; exit 0; }
  objcopy() { command objcopy "$@"; }
fi
# A program without symbols was split before; its PROGRAM.debug must stay.
objcopy --dump-section .symtab=/dev/null "$program" /dev/null 2>/dev/null || exit 0
# Into new files: cargo links the program to a copy of its own, which must stay whole.
objcopy --only-keep-debug "$program" "$program.debug"
objcopy --strip-all --add-gnu-debuglink="$program.debug" "$program" "$program.stripped"
mv "$program.stripped" "$program"
say "$(du -k "$program" | cut -f 1) KiB $program, $(du -k "$program.debug" | cut -f 1) KiB $program.debug"
