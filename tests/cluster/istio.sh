#!/usr/bin/env bash
# Runs inside a cluster with the images echo, pilot and proxyv2: `cluster in tests/cluster/istio.sh`. Installs istiod
# and an ingress gateway as istioctl renders them, and sends requests through a VirtualService.
set -euo pipefail
: "${CLUSTER_DIR:?is set by cluster}"
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/waiting.sh"
HOST="Host: istio.example.test"

# Disables filters and metrics that exist only in Istio's build of Envoy.
MANIFEST=$(istioctl manifest generate -f - <<'YAML'
apiVersion: install.istio.io/v1alpha1
kind: IstioOperator
spec:
  profile: default
  hub: test.local
  tag: "1"
  meshConfig:
    accessLogFile: /dev/stdout
    defaultProviders: {metrics: []}
  components:
    pilot:
      k8s:
        env:
        - {name: PILOT_ENABLE_ALPN_FILTER, value: "false"}
        - {name: PILOT_ENABLE_METADATA_EXCHANGE, value: "false"}
        resources: {requests: {cpu: 10m, memory: 100Mi}}
    ingressGateways:
    - name: istio-ingressgateway
      enabled: true
      k8s: {resources: {requests: {cpu: 10m, memory: 100Mi}}}
  values:
    global: {imagePullPolicy: IfNotPresent}
    pilot: {autoscaleEnabled: false}
    gateways: {istio-ingressgateway: {autoscaleEnabled: false}}
YAML
)
log "manifest rendered"
apply() {
    kubectl apply --server-side -f - <<< "$MANIFEST"
}
kubectl create namespace istio-system --dry-run=client -o yaml | kubectl apply -f -
# The manifest defines kinds and uses them. The first attempt may fail because the API does not serve them yet.
wait_for 30 apply
kubectl -n istio-system rollout status deployment/istiod --timeout=120s
kubectl -n istio-system rollout status deployment/istio-ingressgateway --timeout=120s
log "istiod and the ingress gateway are ready"

kubectl apply -f "$HERE/echo/service.yaml"
kubectl rollout status deployment/web --timeout=60s
kubectl apply -f - <<'YAML'
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gateway}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["istio.example.test"]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web}
spec:
  hosts: ["istio.example.test"]
  gateways: [gateway]
  http:
  - match: [{uri: {prefix: /v1/}}]
    rewrite: {uri: /rewritten/}
    route: [{destination: {host: web.default.svc.cluster.local, port: {number: 80}}}]
  - route: [{destination: {host: web.default.svc.cluster.local, port: {number: 80}}}]
YAML

address=$(kubectl -n istio-system get service istio-ingressgateway -o jsonpath='{.spec.clusterIP}')
wait_for 20 curl -sf -m 3 -H "$HOST" "http://$address/"
curl -sf -m 3 -H "$HOST" "http://$address/v1/hello"
log "rewritten request through the Service's address succeeded"
curl -s -m 3 -o /dev/null -w 'an unknown host: %{http_code}\n' -H "Host: other.example.test" "http://$address/"
istioctl proxy-status
