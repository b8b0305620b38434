#!/usr/bin/env bash
# Builds Contour, and keeps its example manifests for contour.sh.
set -euo pipefail
: "${CLUSTER_DIR:?is set by cluster}"
VERSION=v1.33.8
MODULE=github.com/projectcontour/contour
MANIFESTS=$CLUSTER_DIR/upstream/contour

if [ ! -d "$MANIFESTS" ]; then
    folder=$(go mod download -json "$MODULE@$VERSION" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
    mkdir -p "$MANIFESTS"
    install -m 644 "$folder"/examples/contour/0*.yaml "$MANIFESTS"
fi
[ ! -x "$CLUSTER_DIR/bin/contour" ] || exit 0
CGO_ENABLED=0 GOBIN=$CLUSTER_DIR/bin go install -trimpath -ldflags "-s -w -X $MODULE/internal/build.Version=$VERSION" \
    "$MODULE/cmd/contour@$VERSION"
