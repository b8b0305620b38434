#!/usr/bin/env bash
# Makes the certificates of a cluster: certs.sh FOLDER NODE ADDRESS writes an authority, certificates, and a kubeconfig
# per client. They are deleted with the cluster.
set -euo pipefail
cd "$1"
NODE=$2
ADDRESS=$3
KEY=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

quietly() {
    "$@" 2> /dev/null
}

# certificate NAME SUBJECT EXTENSION..
certificate() {
    local name=$1 subject=$2
    shift 2
    quietly openssl req "${KEY[@]}" -subj "$subject" -keyout "$name.key" -out "$name.csr"
    quietly openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$name.crt" \
        -extfile <(printf '%s\n' "$@")
    rm "$name.csr"
}

# client NAME SUBJECT
client() {
    certificate "$1" "$2" extendedKeyUsage=clientAuth
    cat > "$1.conf" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: cluster, cluster: {server: "https://127.0.0.1:6443", certificate-authority: $PWD/ca.crt}}]
users: [{name: $1, user: {client-certificate: $PWD/$1.crt, client-key: $PWD/$1.key}}]
contexts: [{name: cluster, context: {cluster: cluster, user: $1}}]
current-context: cluster
YAML
}

quietly openssl req -x509 "${KEY[@]}" -days 30 -subj /CN=test-authority -keyout ca.key -out ca.crt \
    -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
NAMES=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc
certificate apiserver /CN=kube-apiserver extendedKeyUsage=serverAuth \
    "subjectAltName=$NAMES,IP:127.0.0.1,IP:$ADDRESS,IP:10.96.0.1"
certificate kubelet-server "/O=system:nodes/CN=system:node:$NODE" extendedKeyUsage=serverAuth \
    "subjectAltName=DNS:$NODE,IP:$ADDRESS,IP:127.0.0.1"
client admin /O=system:masters/CN=admin
client node "/O=system:nodes/CN=system:node:$NODE"
client controllers /CN=system:kube-controller-manager
client scheduler /CN=system:kube-scheduler
client proxy /CN=system:kube-proxy
quietly openssl genrsa -out service-accounts.key 2048
quietly openssl rsa -in service-accounts.key -pubout -out service-accounts.pub
