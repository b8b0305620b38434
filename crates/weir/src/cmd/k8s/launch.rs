//! `weir run --on k8s`: starts the coordinator of a run in the cluster, and follows the run.

use weir_lab::Known;
use weir_lab::pods::GatewayRights;
use weir_results::{Cell, Run, Store, write_archive};
use weir_rig::Drivers;

use super::ClusterArgs;
use crate::cmd::known::known;
use crate::failure::Failure;

/// Largest CPU limit that a scenario may have if the number of cores of the nodes is unknown.
const CPUS_UNKNOWN: usize = 256;

/// The facts that weir uses to validate a scenario for a cluster. `cpus` is the number of cores of the largest node.
pub(in crate::cmd) fn known_of_cluster(drivers: &Drivers, cpus: Option<usize>) -> Known {
    Known { cpus: cpus.unwrap_or(CPUS_UNKNOWN), ..known(drivers) }
}

/// The archive of the run and its finished cells, which the coordinator unpacks.
pub(super) fn archive_of(run: &Run, cells: &[Cell]) -> Result<Vec<u8>, Failure> {
    let mut archive = Vec::new();
    write_archive(run, cells, &mut archive).map_err(|error| {
        Failure::environment(format!("cannot pack the run: {error}"), "report this as a bug")
    })?;
    Ok(archive)
}

/// The state of a run in a cluster when `launch` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "kubernetes"), expect(dead_code, reason = "nothing can be launched without it"))]
pub(in crate::cmd) enum Launched {
    /// The run has ended, and its results are in the database.
    Finished,
    /// The user stopped the run with Ctrl-C. Its finished cells are in the database.
    Interrupted,
    /// The run continues in the cluster.
    Detached,
}

#[cfg(not(feature = "kubernetes"))]
pub(in crate::cmd) fn launch(
    _: &Run,
    _: &mut Store,
    _: Option<&str>,
    _: &ClusterArgs,
    _: &GatewayRights,
) -> Result<Launched, Failure> {
    Err(super::without_feature())
}

#[cfg(feature = "kubernetes")]
pub(in crate::cmd) use with_cluster::{launch, node_cpus};

#[cfg(feature = "kubernetes")]
mod with_cluster {
    use std::sync::Arc;
    use std::time::Duration;

    use weir_kube::{Cluster, Context, KubeError, Object, Selected};
    use weir_lab::pods::{Results, Site, coordinator_manifests, cores, grant_manifests, namespace_manifest};

    use super::*;
    use crate::cmd::k8s::attach::{Attached, follow};
    use crate::cmd::output::note;

    /// How long weir retries the requests that start the run if the API does not respond.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Connects to the cluster of a kubeconfig context; `None` is the current one.
    pub(in crate::cmd::k8s) fn connect(context: Option<&str>) -> Result<Cluster, Failure> {
        let context = context.map_or(Context::Current, |name| Context::Named(name.to_owned()));
        Cluster::of(&context).map_err(|error| failure_of(&error))
    }

    /// Returns the number of cores of the largest node, or `None` if weir has no permission to read the nodes.
    pub(in crate::cmd) fn node_cpus(context: Option<&str>) -> Result<Option<usize>, Failure> {
        let cluster = connect(context)?;
        let nodes = match cluster.list(&Selected::everywhere("v1", "Node", "")) {
            Err(error) if error.is_transient() => {
                let message =
                    format!("the Kubernetes API at {} does not respond: {error}", cluster.address());
                return Err(Failure::environment(
                    message,
                    "check that the cluster responds: kubectl get nodes",
                ));
            }
            Err(error) if error.is_forbidden() => return Ok(None),
            nodes => nodes.map_err(|error| failure_of(&error))?,
        };
        let cpus = |node: &serde_json::Value| {
            let quantity = node["status"]["allocatable"]["cpu"].as_str()?;
            cores(quantity).map(|cores| cores as usize)
        };
        Ok(nodes.iter().filter_map(cpus).max().map(|cpus| cpus.max(1)))
    }

    /// Starts `run` in the cluster, follows it, and writes its results to `store`.
    pub(in crate::cmd) fn launch(
        run: &Run,
        store: &mut Store,
        context: Option<&str>,
        args: &ClusterArgs,
        rights: &GatewayRights,
    ) -> Result<Launched, Failure> {
        let cluster = Arc::new(connect(context)?);
        let kept = match store.runs()?.iter().any(|kept| kept.id == run.id) {
            true => store.cells(&run.id)?,
            false => Vec::new(),
        };
        let archive = archive_of(run, &kept)?;
        let namespace = args.namespace.clone().unwrap_or_else(|| Site::own_namespace(&run.id));
        let is_there = cluster.get(&Object::global("v1", "Namespace", &namespace));
        let is_there = match is_there {
            // If weir may not read the namespace that `--namespace` names, it assumes that the namespace exists.
            Err(error) if error.is_forbidden() && args.namespace.is_some() => true,
            found => found.map_err(|error| failure_of(&error))?.is_some(),
        };
        let site = args.site(&run.id, !is_there);
        let results = Results::new(Arc::clone(&cluster), site.clone());
        // If the service account exists, the namespace already contains this run. Refuse to start the run again: the
        // namespace may contain its results, and weir would treat the namespace as one that existed before the run.
        let account = Object::new("v1", "ServiceAccount", &site.namespace, &site.coordinator());
        let is_running = match cluster.get(&account) {
            Err(error) if error.is_forbidden() => false,
            found => is_there && found.map_err(|error| failure_of(&error))?.is_some(),
        };
        if is_running {
            let flags = flags(context, args);
            let message = format!("run {} already exists in namespace {}", run.id, site.namespace);
            let remedy = format!(
                "`weir k8s attach {id}{flags}` follows this run; `weir k8s fetch` fetches its results, `weir k8s \
                 clean` removes it",
                id = run.id
            );
            return Err(Failure::wrong_use(message, remedy));
        }
        let mut uid = None;
        if site.is_own {
            let made = cluster.create(&namespace_manifest(&site)).map_err(|error| {
                let mut failure = failure_of(&error);
                if error.is_forbidden() {
                    failure.problem.remedy =
                        "request permission to create namespaces, or use an existing one: --namespace NAMESPACE"
                            .into();
                }
                failure
            })?;
            uid = made["metadata"]["uid"].as_str().map(str::to_owned);
        }
        let mut manifests = match args.grant {
            true => grant_manifests(&site, rights, uid.as_deref()),
            false => Vec::new(),
        };
        manifests.extend(coordinator_manifests(&site, &archive, rights));
        let started = cluster.apply(&manifests, PATIENCE);
        if let Err(error) = started {
            // The run could not start, so weir removes everything that belongs to it. If this fails, weir removes at
            // least the namespace that it created for the run.
            if results.clean().is_err() && site.is_own {
                let namespace = Object::global("v1", "Namespace", &site.namespace);
                let _ = cluster.remove(&namespace, Duration::ZERO);
            }
            return Err(failure_of(&error));
        }
        note(format_args!("run {} runs in namespace {}", run.id, site.namespace));
        if args.detach {
            let flags = flags(context, args);
            note(format_args!(
                "the run continues in the cluster; `weir k8s attach {}{flags}` follows it",
                run.id
            ));
            return Ok(Launched::Detached);
        }
        match follow(&cluster, &site, &results, store)? {
            Attached::Finished => Ok(Launched::Finished),
            Attached::Interrupted => Ok(Launched::Interrupted),
        }
    }

    /// The flags that select the same cluster and namespace.
    fn flags(context: Option<&str>, args: &ClusterArgs) -> String {
        let context = context.map(|context| format!(" --context {context}")).unwrap_or_default();
        let namespace = args.namespace.as_ref().map(|of| format!(" --namespace {of}")).unwrap_or_default();
        context + &namespace
    }

    pub(in crate::cmd::k8s) fn failure_of(error: &KubeError) -> Failure {
        let remedy = match error {
            KubeError::Connect { .. } => "check the kubeconfig and its contexts: kubectl config get-contexts",
            error if error.is_against_policy() => {
                "change the quota or policy that the message names, or use another namespace (--namespace)"
            }
            error if error.is_forbidden() => {
                "request the permission that the message names; `weir k8s render SCENARIO` prints all objects that a \
                run needs"
            }
            error if error.is_transient() => "check that the cluster responds: kubectl get nodes",
            _ => "correct the cause that the message names",
        };
        Failure::environment(error.to_string(), remedy)
    }
}

#[cfg(feature = "kubernetes")]
pub(super) use with_cluster::{connect, failure_of};

#[cfg(not(feature = "kubernetes"))]
pub(in crate::cmd) fn node_cpus(_: Option<&str>) -> Result<Option<usize>, Failure> {
    Err(super::without_feature())
}
