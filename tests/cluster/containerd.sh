#!/usr/bin/env bash
# Starts containerd for the cluster, with a network for pods. Its socket is at the default path, because cAdvisor in the
# kubelet uses only this path; otherwise it reports no container names. A mount hides the socket from the host.
set -euo pipefail
: "${CLUSTER_DIR:?is set by cluster}"
. "$(dirname "$0")/waiting.sh"
NODE=$CLUSTER_DIR/node
mkdir -p "$NODE/containerd" "$NODE/cni"

cat > "$NODE/containerd/config.toml" <<TOML
version = 2
root = "$NODE/containerd/root"
state = "$NODE/containerd/state"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "test.local/pause:1"
  # Without CAP_SYS_RESOURCE, runc cannot lower oom_score_adj.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$NODE/cni"
TOML

cat > "$NODE/cni/10-ptp.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipMasq": false,
   "ipam": {"type": "host-local", "dataDir": "$NODE/cni-ipam", "ranges": [[{"subnet": "10.244.0.0/24"}]],
            "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
JSON

setsid containerd -c "$NODE/containerd/config.toml" > "$CLUSTER_DIR/logs/containerd.log" 2>&1 &
wait_for 20 ctr version
