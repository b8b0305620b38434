#!/usr/bin/env bash
# Runs inside a cluster with the images echo, envoy and envoy-gateway: `cluster in tests/cluster/envoy-gateway.sh`.
# Installs Envoy Gateway from its Helm chart, but with local images, and sends requests through an HTTPRoute.
set -euo pipefail
: "${CLUSTER_DIR:?is set by cluster}"
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/waiting.sh"
CHART=$CLUSTER_DIR/upstream/envoy-gateway
SPACE=envoy-gateway-system
HOST="Host: web.example.test"

helm=$(python3 "$HERE/../../scripts/dist_tools.py" helm)/helm
image=$(python3 "$HERE/images.py" --reference envoy-gateway)
envoy_image=$(python3 "$HERE/images.py" --reference envoy)
# Released charts contain these two values; the source has placeholders.
sed "s#\${GatewayImage}#$image#; s#\${GatewayImagePullPolicy}#IfNotPresent#" "$CHART/values.tmpl.yaml" > "$CHART/values.yaml"
kubectl apply --server-side -R -f "$CHART/charts/crds/crds" > /dev/null
kubectl create namespace "$SPACE"
"$helm" template eg "$CHART" -n "$SPACE" --kube-version 1.36.0 --set topologyInjector.enabled=false \
    --set global.images.envoyProxy.image="$envoy_image" --set deployment.envoyGateway.resources.requests.cpu=10m \
    | kubectl -n "$SPACE" apply --server-side -f - > /dev/null
kubectl -n "$SPACE" rollout status deployment/envoy-gateway --timeout=120s
log "Envoy Gateway is ready"

kubectl apply -f "$HERE/echo/service.yaml"
kubectl apply -f - <<'YAML'
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: eg}
spec: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  gatewayClassName: eg
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{name: web}]
  hostnames: ["web.example.test"]
  rules: [{backendRefs: [{name: web, port: 80}]}]
YAML
kubectl rollout status deployment/web --timeout=60s
of_gateway="gateway.envoyproxy.io/owning-gateway-name=web"
wait_for 60 kubectl -n "$SPACE" get service -l "$of_gateway" -o 'jsonpath={.items[0].spec.clusterIP}'
address=$(kubectl -n "$SPACE" get service -l "$of_gateway" -o 'jsonpath={.items[0].spec.clusterIP}')
wait_for 60 curl -sf -m 3 -H "$HOST" "http://$address/"
log "request through the Service's address succeeded"
curl -s -m 3 -o /dev/null -w 'an unknown host: %{http_code}\n' -H "Host: other.example.test" "http://$address/"
