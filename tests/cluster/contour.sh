#!/usr/bin/env bash
# Runs inside a cluster with the images echo, contour and envoy: `cluster in tests/cluster/contour.sh`. Installs Contour
# with Envoy from Contour's manifests, but with local images, and sends requests through an HTTPProxy.
set -euo pipefail
: "${CLUSTER_DIR:?is set by cluster}"
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/waiting.sh"
ADDRESS=10.9.9.1

contour_image=$(python3 "$HERE/images.py" --reference contour)
envoy_image=$(python3 "$HERE/images.py" --reference envoy)
for manifest in "$CLUSTER_DIR"/upstream/contour/*.yaml; do
    sed -E "s#image: .*/contour:.*#image: $contour_image#; s#image: .*/envoy:.*#image: $envoy_image#" "$manifest"
    echo ---
done | kubectl apply --server-side -f - > /dev/null
kubectl -n projectcontour wait --for=condition=complete job --all --timeout=90s
kubectl -n projectcontour rollout status deployment/contour --timeout=120s
kubectl -n projectcontour rollout status daemonset/envoy --timeout=120s
log "Contour and Envoy are ready"

kubectl apply -f "$HERE/echo/service.yaml"
kubectl rollout status deployment/web --timeout=60s
kubectl apply -f - <<'YAML'
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: web}
spec:
  virtualhost: {fqdn: web.example.test}
  routes:
  - conditions: [{prefix: /}]
    services: [{name: web, port: 80}]
YAML
kubectl wait httpproxy/web --for=jsonpath='{.status.currentStatus}'=valid --timeout=30s

wait_for 20 curl -sf -m 2 -H "Host: web.example.test" http://$ADDRESS/
curl -sf -m 3 -H "Host: web.example.test" http://$ADDRESS/hello
log "request through the host's port succeeded"
curl -s -m 3 -o /dev/null -w 'an unknown host: %{http_code}\n' -H "Host: other.example.test" http://$ADDRESS/
