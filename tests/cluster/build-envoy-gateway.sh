#!/usr/bin/env bash
# Builds Envoy Gateway, and keeps its Helm chart for envoy-gateway.sh.
set -euo pipefail
: "${CLUSTER_DIR:?is set by cluster}"
HERE=$(cd "$(dirname "$0")" && pwd)
VERSION=v1.9.1
MODULE=github.com/envoyproxy/gateway
CHART=$CLUSTER_DIR/upstream/envoy-gateway

python3 "$HERE/../../scripts/dist_tools.py" helm > /dev/null
if [ ! -d "$CHART" ]; then
    folder=$(go mod download -json "$MODULE@$VERSION" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
    rm -rf "$CHART.new"
    mkdir -p "${CHART%/*}"
    cp -r --no-preserve=mode "$folder/charts/gateway-helm" "$CHART.new"
    mv "$CHART.new" "$CHART"
fi
[ ! -x "$CLUSTER_DIR/bin/envoy-gateway" ] || exit 0
CGO_ENABLED=0 GOBIN=$CLUSTER_DIR/bin go install -trimpath \
    -ldflags "-s -w -X $MODULE/internal/cmd/version.envoyGatewayVersion=$VERSION" "$MODULE/cmd/envoy-gateway@$VERSION"
