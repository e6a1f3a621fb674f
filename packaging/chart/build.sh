#!/usr/bin/env bash
# Packs the chart to $DIST/reseq-VERSION.tgz: the same sources give the same bytes.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=packaging/chart/tools.sh
. "$(dirname "$0")/tools.sh"

helm_tools
stage=$(mktemp -d) && trap 'rm -rf "$stage"' EXIT
cp -r "$CHART/reseq" "$stage/reseq"
rm -r "$stage/reseq/tests"
mkdir "$stage/reseq/files"
cp "$ROOT/deploy/prometheus/reseq.rules.yml" "$ROOT/deploy/grafana/reseq.json" "$stage/reseq/files/"
sed -i "s/^\(version\|appVersion\): .*/\1: $VERSION/" "$stage/reseq/Chart.yaml"

say "helm lint"
for values in "$CHART"/examples/*.yaml; do
  "$HELM" lint --strict --quiet --values "$values" "$stage/reseq" >&2
done
say "packing $DIST/reseq-$VERSION.tgz"
reproducible_tar --directory "$stage" reseq | gzip --no-name --best >"$DIST/reseq-$VERSION.tgz"
