#!/usr/bin/env bash
# Builds istiod, its agent and istioctl with `go install`, which works because their go.mod has no `replace`. Keeps
# Envoy's bootstrap for the image.
set -euo pipefail
: "${CLUSTER_DIR:?is set by cluster}"
VERSION=v0.0.0-20260827124520-eed52ebb66ad
MODULE=istio.io/istio
PROGRAMS=$CLUSTER_DIR/bin/istio
UPSTREAM=$CLUSTER_DIR/upstream/istio

if [ ! -d "$UPSTREAM" ]; then
    folder=$(go mod download -json "$MODULE@$VERSION" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
    mkdir -p "$UPSTREAM"
    install -m 644 "$folder/tools/packaging/common/envoy_bootstrap.json" "$UPSTREAM"
fi
STAMP=$MODULE/pkg/version
for package in pilot/cmd/pilot-discovery pilot/cmd/pilot-agent istioctl/cmd/istioctl; do
    tags=vtprotobuf,disable_pgv
    [ "$package" != pilot/cmd/pilot-agent ] || tags=agent,disable_pgv,grpcnotrace,retrynotrace
    [ -x "$PROGRAMS/${package##*/}" ] || CGO_ENABLED=0 GOBIN=$PROGRAMS go install -trimpath -tags=$tags \
        -ldflags "-s -w -X $STAMP.buildVersion=1.31-test -X $STAMP.buildHub=test.local -X $STAMP.buildTag=1" \
        "$MODULE/$package@$VERSION"
done
