#!/bin/sh
# Fetches the page that shows /openapi.json at /docs (Swagger UI, Apache-2.0) into web/api-docs/. The files are
# committed, so that a build needs neither Node nor the network. Run it to take another version.
set -eu
version=5.35.0
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack "swagger-ui-dist@$version" >/dev/null && tar xzf swagger-ui-dist-*.tgz)
for file in swagger-ui-bundle.js swagger-ui.css; do
  gzip -9nc "$work/package/$file" > "web/api-docs/$file.gz"
done
cp "$work/package/LICENSE" "$work/package/NOTICE" web/api-docs/
