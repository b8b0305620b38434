#!/usr/bin/env bash
# Builds all parts of Kubernetes as one program from the module k8s.io/kubernetes, with a symlink per part. The program
# runs the part that the symlink names.
set -euo pipefail
: "${CLUSTER_DIR:?is set by cluster}"
VERSION=$KUBE_VERSION
# Staging modules have the versions v0.MINOR.PATCH.
STAGING=v0.${VERSION#1.}
PROGRAM=$CLUSTER_DIR/bin/hyperkube-$VERSION
LINKS=$CLUSTER_DIR/bin/k8s-$VERSION
[ ! -x "$PROGRAM" ] || exit 0

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"
UPSTREAM=$(go mod download -json "k8s.io/kubernetes@v$VERSION" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')

# Upstream's go.mod requires staging modules at v0.0.0: use their published version instead. All other modules keep
# their versions.
staging() {
    sed -n "s#^\s*\(k8s.io/[a-z0-9-]*\) v0\.0\.0\( .*\)\?\$#$1 $STAGING#p" "$UPSTREAM/go.mod" | sort -u
}
{
    echo "module kube"
    sed -n '/^go 1/p; /^godebug/p' "$UPSTREAM/go.mod"
    echo "require k8s.io/kubernetes v$VERSION"
    echo "require ("
    staging '\1'
    echo ")"
    echo "replace ("
    staging '\1 => \1'
    echo ")"
} > go.mod

cat > main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	var command *cobra.Command
	switch filepath.Base(os.Args[0]) {
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kube-proxy":
		command = proxy.NewProxyCommand()
	case "kubelet":
		command = kubelet.NewKubeletCommand(context.Background())
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	default:
		fmt.Fprintln(os.Stderr, "error: unknown program name; use the name of a Kubernetes component")
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
GO

go mod tidy -e > tidy.log 2>&1 || go mod download
STAMP=k8s.io/component-base/version
MINOR=$(echo "$VERSION" | cut -d. -f2)
go build -trimpath -o "$PROGRAM" -ldflags "-s -w -X $STAMP.gitVersion=v$VERSION -X $STAMP.gitMajor=1 \
    -X $STAMP.gitMinor=$MINOR -X k8s.io/client-go/pkg/version.gitVersion=v$VERSION" .
mkdir -p "$LINKS"
for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
    ln -sf "../hyperkube-$VERSION" "$LINKS/$name"
done
