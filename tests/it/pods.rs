//! API calls of a run in a Kubernetes cluster: manifests, rights, changes of gateways, their restoration, results.
//!
//! One real etcd and kube-apiserver serve all tests. The tests stand in for controllers, scheduler and kubelet.

mod api;
mod gateways;
mod launched;
mod refused;
mod rendered;
mod results;
mod rights;
mod routes;
