//! `weir run --on k8s`: starts the coordinator of a run in its cluster, and follows it.

use weir_lab::Known;
use weir_lab::pods::GatewayRights;
use weir_results::{Cell, Run, Store, write_archive};
use weir_rig::Drivers;

use super::ClusterArgs;
use crate::cmd::known::known;
use crate::failure::Failure;

/// The most cores that a limit may have where the cores of the nodes are not known.
const CPUS_UNKNOWN: usize = 256;

/// What a scenario may use in a cluster: `cpus` are those of its largest node.
pub(in crate::cmd) fn known_of_cluster(drivers: &Drivers, cpus: Option<usize>) -> Known {
    Known { cpus: cpus.unwrap_or(CPUS_UNKNOWN), ..known(drivers) }
}

/// The run and its cells, as the coordinator gets them.
pub(super) fn archive_of(run: &Run, cells: &[Cell]) -> Result<Vec<u8>, Failure> {
    let mut archive = Vec::new();
    write_archive(run, cells, &mut archive).map_err(|error| {
        Failure::environment(format!("cannot pack the run: {error}"), "report this as a bug")
    })?;
    Ok(archive)
}

/// How a run in a cluster ended for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "kubernetes"), expect(dead_code, reason = "nothing can be launched without it"))]
pub(in crate::cmd) enum Launched {
    /// Its results are in the store.
    Finished,
    /// It was stopped by Ctrl-C; what it had finished is in the store.
    Interrupted,
    /// It goes on in the cluster.
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

    /// How long the API may be away while the run is started.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// The cluster of `context`.
    pub(in crate::cmd::k8s) fn connect(context: Option<&str>) -> Result<Cluster, Failure> {
        let context = context.map_or(Context::Current, |name| Context::Named(name.to_owned()));
        Cluster::of(&context).map_err(|error| told(&error))
    }

    /// The cores of the largest node; `None` if the nodes may not be read.
    pub(in crate::cmd) fn node_cpus(context: Option<&str>) -> Result<Option<usize>, Failure> {
        let cluster = connect(context)?;
        let nodes = match cluster.list(&Selected::everywhere("v1", "Node", "")) {
            Err(error) if error.is_transient() => {
                let message =
                    format!("the Kubernetes API at {} does not respond: {error}", cluster.address());
                return Err(Failure::environment(
                    message,
                    "check that the cluster is there: kubectl get nodes",
                ));
            }
            Err(error) if error.is_forbidden() => return Ok(None),
            nodes => nodes.map_err(|error| told(&error))?,
        };
        let cpus = |node: &serde_json::Value| {
            let quantity = node["status"]["allocatable"]["cpu"].as_str()?;
            cores(quantity).map(|cores| cores as usize)
        };
        Ok(nodes.iter().filter_map(cpus).max().map(|cpus| cpus.max(1)))
    }

    /// Starts `run` in the cluster of `context`, follows it, and takes its results into `store`.
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
            // Without the right to look, one that was named is taken to be there.
            Err(error) if error.is_forbidden() && args.namespace.is_some() => true,
            found => found.map_err(|error| told(&error))?.is_some(),
        };
        let site = args.site(&run.id, !is_there);
        let results = Results::new(Arc::clone(&cluster), site.clone());
        // Its results are there, and a second coordinator would take the namespace for somebody else's.
        let account = Object::new("v1", "ServiceAccount", &site.namespace, &site.coordinator());
        let is_running = match cluster.get(&account) {
            Err(error) if error.is_forbidden() => false,
            found => is_there && found.map_err(|error| told(&error))?.is_some(),
        };
        if is_running {
            let flags = flags(context, args);
            let message = format!("run {} is in namespace {} already", run.id, site.namespace);
            let remedy = format!(
                "`weir k8s attach {id}{flags}` follows it; `weir k8s fetch` and `clean` take its results and remove it",
                id = run.id
            );
            return Err(Failure::wrong_use(message, remedy));
        }
        let mut uid = None;
        if site.is_own {
            let made = cluster.create(&namespace_manifest(&site)).map_err(|error| {
                let mut failure = told(&error);
                if error.is_forbidden() {
                    failure.problem.remedy =
                        "ask for the right to create namespaces, or name one that is there: --namespace NAMESPACE"
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
            // Nothing stays of a run that could not begin, whatever else may be removed.
            if results.clean().is_err() && site.is_own {
                let namespace = Object::global("v1", "Namespace", &site.namespace);
                let _ = cluster.remove(&namespace, Duration::ZERO);
            }
            return Err(told(&error));
        }
        note(format_args!("run {} is in namespace {}", run.id, site.namespace));
        if args.detach {
            let flags = flags(context, args);
            note(format_args!("it goes on by itself; `weir k8s attach {}{flags}` follows it", run.id));
            return Ok(Launched::Detached);
        }
        match follow(&cluster, &site, &results, store)? {
            Attached::Finished => Ok(Launched::Finished),
            Attached::Interrupted => Ok(Launched::Interrupted),
        }
    }

    /// The flags that name the place again.
    fn flags(context: Option<&str>, args: &ClusterArgs) -> String {
        let context = context.map(|context| format!(" --context {context}")).unwrap_or_default();
        let namespace = args.namespace.as_ref().map(|of| format!(" --namespace {of}")).unwrap_or_default();
        context + &namespace
    }

    pub(in crate::cmd::k8s) fn told(error: &KubeError) -> Failure {
        let remedy = match error {
            KubeError::Connect { .. } => "check the kubeconfig and its contexts: kubectl config get-contexts",
            error if error.is_against_policy() => {
                "change the quota or policy that it names, or use another namespace (--namespace)"
            }
            error if error.is_forbidden() => {
                "ask for the right that it names; `weir k8s render SCENARIO` prints all objects that a run needs"
            }
            error if error.is_transient() => "check that the cluster is there: kubectl get nodes",
            _ => "see what the cluster says",
        };
        Failure::environment(error.to_string(), remedy)
    }
}

#[cfg(feature = "kubernetes")]
pub(super) use with_cluster::{connect, told};

#[cfg(not(feature = "kubernetes"))]
pub(in crate::cmd) fn node_cpus(_: Option<&str>) -> Result<Option<usize>, Failure> {
    Err(super::without_feature())
}
