#!/usr/bin/env bash
# Checks the packed chart with all value files. --quick: only what Helm itself checks.
set -euo pipefail
# shellcheck source=packaging/lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=packaging/chart/tools.sh
. "$(dirname "$0")/tools.sh"

"$CHART/build.sh"
helm_tools
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
mkdir "$work/rendered"
tar --extract --gzip --file "$DIST/reseq-$VERSION.tgz" --directory "$work"
for values in "$CHART"/examples/*.yaml; do
  say "helm template $(basename "$values")"
  "$HELM" template reseq "$work/reseq" --namespace messages --values "$values" \
    >"$work/rendered/$(basename "$values")"
done
[ "${1:-}" != --quick ] || exit 0

say "helm-unittest"
unittest_tools
cp -r "$CHART/reseq/tests" "$work/reseq/" && cp -r "$CHART/examples" "$work/"
"$UNTT" --strict --file 'tests/*_test.yaml' "$work/reseq" >&2

say "kubernetes-validate"
python_tools
"$PYTHON" - "$work"/rendered/* <<'PY'
import sys, kubernetes_validate, yaml

for name in sys.argv[1:]:
    for resource in filter(None, yaml.safe_load_all(open(name))):
        # Schemas of custom resources are checked by test-apiserver.sh.
        if not resource["apiVersion"].startswith(("keda.sh/", "monitoring.coreos.com/")):
            kubernetes_validate.validate(resource, "1.34", strict=True)
PY

say "same bytes again"
DIST=$work "$CHART/build.sh" 2>/dev/null
cmp "$DIST/reseq-$VERSION.tgz" "$work/reseq-$VERSION.tgz" || die "the second build differs from the first: compare both"
say "chart: ok"
