# For both build.sh: the functions of lib.sh, and the array `architectures` of the programs to pack.
# shellcheck shell=bash
# shellcheck source=packaging/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

architectures=()
for each in x86_64 aarch64; do
  from=$(programs $each)
  [ -f "$from/reseq" ] || { say "$from/reseq does not exist: skipping $each"; continue; }
  [[ -f "$from/redis-server" && -f "$from/LICENSE.valkey" ]] ||
    die "$from needs redis-server and LICENSE.valkey: build the bundled Valkey first"
  architectures+=("$each")
done
[ ${#architectures[@]} -gt 0 ] || die "$DIST/programs has no program: build the programs first"
