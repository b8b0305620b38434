#!/usr/bin/env bash
# Builds CoreDNS with only the plugins that a test cluster needs.
set -euo pipefail
: "${CLUSTER_DIR:?is set by cluster}"
VERSION=v1.15.0
[ ! -x "$CLUSTER_DIR/bin/coredns" ] || exit 0

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"
cat > main.go <<'GO'
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func init() {
	dnsserver.Directives = []string{"bind", "errors", "health", "cache", "kubernetes"}
}

func main() { coremain.Run() }
GO
go mod init coredns
go get "github.com/coredns/coredns@$VERSION"
go mod tidy
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$CLUSTER_DIR/bin/coredns" .
