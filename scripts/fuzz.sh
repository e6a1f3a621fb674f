#!/usr/bin/env bash
# Fuzzes the parsers of input with cargo-fuzz, one target after the other; then keeps the smallest corpus that
# reaches the same code. Works with a stable Rust; installs cargo-fuzz with `cargo install`.
#
#   scripts/fuzz.sh SECONDS [TARGET ...]      (all targets of fuzz/)
#
# fuzz/corpus has one file for each target, with one input in base64 on each line; the unit tests run them. An input that
# fails is in fuzz/artifacts. Correct the code, and add the input:
#   (base64 -w0 INPUT; echo) >> fuzz/corpus/TARGET.base64
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?how many seconds for each target?}
shift
command -v cargo-fuzz >/dev/null 2>&1 || cargo install --locked cargo-fuzz
# Without a sanitizer: no code of the project is unsafe, and sanitizers need a nightly Rust.
fuzz() { cargo fuzz "$1" --sanitizer none "${@:2}"; }

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(cargo fuzz list)
  fuzz build
fi
for target in "${targets[@]}"; do
  kept=fuzz/corpus/$target.base64
  folder=fuzz/corpus/$target
  mkdir -p "$folder"
  number=0
  while read -r input || [ -n "$input" ]; do
    number=$((number + 1))
    base64 -d <<<"$input" >"$folder/$number"
  done <"$kept"
  fuzz run "$target" -- -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -dict="fuzz/dictionaries/$target.dict" -print_final_stats=1
  fuzz cmin "$target" -- -use_counters=0
  for input in "$folder"/*; do
    base64 -w0 "$input"
    echo
  done | LC_ALL=C sort -u >"$kept.new"
  mv "$kept.new" "$kept"
  rm -r "$folder"
done
