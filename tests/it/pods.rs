//! What a run in a Kubernetes cluster asks of the API: manifests, rights, changes of gateways and their restoration, results.
//!
//! One real etcd and kube-apiserver serve all tests. There are no controllers, no scheduler and no kubelet: their part is
//! played by the tests.

mod api;
mod gateways;
mod launched;
mod refused;
mod rendered;
mod results;
mod rights;
mod routes;
