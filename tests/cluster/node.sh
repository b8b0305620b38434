#!/usr/bin/env bash
# Runs as the first process in the namespaces that `cluster` makes: starts all parts of a node, creates the file
# `ready`, and stays. Arguments are the tars of images to load.
set -euo pipefail
: "${CLUSTER_DIR:?is set by cluster}"
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/waiting.sh"
NODE=$CLUSTER_DIR/node
LOGS=$CLUSTER_DIR/logs
PKI=$NODE/pki
NAME=node1
ADDRESS=10.9.9.1
ETCD=http://127.0.0.1:2379

# A bridge stands in for the network card, and the default route leads nowhere.
ip link set lo up
ip link add node0 type bridge
ip address add $ADDRESS/24 dev node0
ip link set node0 up
ip route add default dev node0
sysctl -qw net.ipv4.ip_forward=1

# containerd, CNI and the kubelet always write to these paths. A tmpfs keeps the host's folders clean.
for folder in /run/netns /run/containerd /var/lib/kubelet /var/lib/cni /var/log/containers /usr/libexec/kubernetes; do
    mkdir -p $folder
    mount -t tmpfs tmpfs $folder
done
# The kubelet sets these kernel parameters for the whole machine. Bind mounts redirect its writes to copies.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
    kernel/keys/root_maxbytes; do
    mkdir -p "$NODE/settings/${setting%/*}"
    cat "/proc/sys/$setting" > "$NODE/settings/$setting"
    mount --bind "$NODE/settings/$setting" "/proc/sys/$setting"
done
mkdir -p "$NODE/kubelet" "$NODE/etcd" "$PKI"
mount -t tmpfs tmpfs "$NODE/etcd"
chmod 700 "$NODE/etcd"
bash "$HERE/certs.sh" "$PKI" $NAME $ADDRESS
log "certificates made"

etcd --data-dir "$NODE/etcd" --listen-client-urls $ETCD --advertise-client-urls $ETCD \
    --listen-peer-urls http://127.0.0.1:2380 > "$LOGS/etcd.log" 2>&1 &
kube-apiserver --etcd-servers=$ETCD --secure-port=6443 --bind-address=0.0.0.0 --advertise-address=$ADDRESS \
    --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" --client-ca-file="$PKI/ca.crt" \
    --kubelet-client-certificate="$PKI/admin.crt" --kubelet-client-key="$PKI/admin.key" \
    --kubelet-preferred-address-types=InternalIP --kubelet-certificate-authority="$PKI/ca.crt" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$PKI/service-accounts.pub" \
    --service-account-signing-key-file="$PKI/service-accounts.key" --service-cluster-ip-range=10.96.0.0/16 \
    --authorization-mode=Node,RBAC --allow-privileged=true --enable-admission-plugins=NodeRestriction \
    --profiling=false > "$LOGS/apiserver.log" 2>&1 &

bash "$HERE/containerd.sh"
log "containerd started"
for tar in "$@"; do
    ctr images import "$tar" > /dev/null
done
log "images loaded"

wait_for 60 kubectl get --raw /readyz
log "API server ready"
kube-controller-manager --kubeconfig="$PKI/controllers.conf" --authentication-kubeconfig="$PKI/controllers.conf" \
    --authorization-kubeconfig="$PKI/controllers.conf" --root-ca-file="$PKI/ca.crt" \
    --service-account-private-key-file="$PKI/service-accounts.key" --use-service-account-credentials=true \
    --leader-elect=false --bind-address=127.0.0.1 > "$LOGS/controllers.log" 2>&1 &
kube-scheduler --kubeconfig="$PKI/scheduler.conf" --authentication-kubeconfig="$PKI/scheduler.conf" \
    --authorization-kubeconfig="$PKI/scheduler.conf" --leader-elect=false --bind-address=127.0.0.1 \
    > "$LOGS/scheduler.log" 2>&1 &

# DNS is a process on the node, not a pod.
cat > "$NODE/Corefile" <<CONF
.:53 {
    bind $ADDRESS
    errors
    health 127.0.0.1:8099
    cache 5
    kubernetes cluster.local in-addr.arpa {
        kubeconfig $PKI/admin.conf
    }
}
CONF
coredns -conf "$NODE/Corefile" > "$LOGS/coredns.log" 2>&1 &

echo "nameserver $ADDRESS" > "$NODE/resolv.conf"
cat > "$NODE/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/kubelet-server.crt
tlsPrivateKeyFile: $PKI/kubelet-server.key
failSwapOn: false
resolvConf: $NODE/resolv.conf
clusterDNS: [$ADDRESS]
clusterDomain: cluster.local
podLogsDir: $NODE/pod-logs
volumePluginDir: $NODE/volume-plugins
evictionHard: {memory.available: "100Mi", nodefs.available: "1%", imagefs.available: "1%"}
imageGCHighThresholdPercent: 100
syncFrequency: 10s
fileCheckFrequency: 5s
YAML
kubelet --config="$NODE/kubelet.yaml" --kubeconfig="$PKI/node.conf" --root-dir="$NODE/kubelet" \
    --hostname-override=$NAME --node-ip=$ADDRESS > "$LOGS/kubelet.log" 2>&1 &

cat > "$NODE/proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $PKI/proxy.conf}
mode: iptables
clusterCIDR: 10.244.0.0/16
hostnameOverride: $NAME
bindAddress: 0.0.0.0
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
iptables: {localhostNodePorts: false}
YAML
kube-proxy --config="$NODE/proxy.yaml" > "$LOGS/proxy.log" 2>&1 &

node_ready() {
    kubectl get node $NAME -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}' | grep -q True
}
wait_for 90 node_ready
log "node ready"
wait_for 30 kubectl get serviceaccount default
log "service accounts exist"
touch "$NODE/ready"
# No `exec`: while this shell waits, it also reaps orphaned processes.
sleep infinity
