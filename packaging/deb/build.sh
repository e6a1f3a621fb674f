#!/usr/bin/env bash
# Builds reseq_VERSION_amd64.deb and .rpm of the programs for x86_64. Usage: build.sh [VERSION [FOLDER]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
export VERSION=${1:-$VERSION}
out=$(realpath "${2:-$DIST}")
program=$(programs x86_64)/reseq
[[ -x $program && -x $program-connect ]] || die "$program or $program-connect is missing: build the programs first"

nfpm=$TOOLS/nfpm-$NFPM_VERSION/nfpm
if [ ! -x "$nfpm" ]; then
  say "installing nfpm $NFPM_VERSION"
  command -v go > /dev/null || die "go is missing: install Go 1.24 or later"
  GOBIN=$(dirname "$nfpm") go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$NFPM_VERSION"
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
ln -s "$here" "$stage/deb"
cd "$stage"
say "writing man pages and completions"
install -m 755 "$program" "$program-connect" .
mkdir man doc
cp "$ROOT"/reseq{,-connect}.example.toml "$ROOT/CHANGELOG.md" doc/
./reseq man man
{
  printf '.TH RESEQ-CONNECT 1\n.SH NAME\nreseq-connect \\- copies a Postgres outbox or Kafka into Reseq\n.SH SYNOPSIS\n.nf\n'
  for each in '' run check status; do ./reseq-connect $each --help | sed 's/[\\-]/\\&/g; 1s/^/.PP\n/'; done
} > man/reseq-connect.1
for shell in bash zsh fish; do ./reseq completions "$shell" > "reseq.$shell"; done
{ printf 'Reseq\n\nUpstream-Contact: The Reseq authors\nLicense: MIT\n\n'; cat "$ROOT/LICENSE"; } > doc/copyright
cat > changelog << EOF
reseq ($VERSION) unstable; urgency=medium

  * CHANGELOG.md.gz lists the changes.

 -- The Reseq authors <reseq@example.invalid>  $(date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")
EOF
gzip -9n man/* changelog doc/CHANGELOG.md

GLIBC=$(glibc_of reseq reseq-connect)
export GLIBC
[ -n "$GLIBC" ] || die "$program does not use glibc: put the build for glibc there"
for kind in deb rpm; do
  file=$out/reseq_${VERSION}_amd64.$kind
  say "building $file"
  "$nfpm" package --config deb/nfpm.yaml --packager "$kind" --target "$file" > nfpm.log || die "$(cat nfpm.log)"
done
