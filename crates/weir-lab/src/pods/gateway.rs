//! Changes the routes, limits and pods of gateways that already run in the cluster. Before each change, weir records
//! the original state in the namespace of the run. At the end of the run, weir restores the original state. If the run
//! was killed, `weir k8s clean` restores it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_kube::{Cluster, KubeError, Object, PodState, Selected, pod_state};
use weir_results::{FaultAction, PartImage};
use weir_rig::{AcceptedFile, DataService, Limits, Workload};

use super::cluster::refused;
use super::container::resources_of;
use super::host::digest_of;
use super::{PlacedPod, PlacedPods, PodError, Site};

/// Timeout of a rollout.
const ROLLOUT_MAX: Duration = Duration::from_secs(180);
/// Timeout for a gateway to accept its routes.
const ACCEPTED_MAX: Duration = Duration::from_secs(120);
/// Pause between two requests while weir waits for a rollout, or for routes to be accepted.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The annotation of a pod template that triggers a rollout.
const RESTARTED: &str = "weir/restarted-at";

/// Name of the ConfigMap with the state to restore.
const RECORD: &str = "changes";
/// The key in the ConfigMap [`RECORD`] that contains the state to restore.
const RECORD_KEY: &str = "changes.json";

/// Maximum number of manifests in one call of [`Cluster::apply`]. It limits memory: 100,000 routes with labels take over
/// 100 MiB.
const BATCH: usize = 64;

/// Identity of an object: API version, kind, namespace and name.
type Key = (String, String, String, String);

/// Applied objects with their manifests as JSON, which needs much less memory than a [`Value`]. The JSON is empty until
/// the API has accepted the manifest.
type Applied = BTreeMap<Key, String>;

/// What a run has changed in objects that it does not own, and the routes that it has created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Changes {
    /// The original resources of the changed containers.
    workloads: Vec<Before>,
    /// The objects of the routes.
    #[serde(with = "grouped")]
    objects: BTreeSet<Key>,
}

/// How the record stores [`Changes::objects`]: names, grouped by API version, kind and namespace. If each object
/// repeated these three, 5,000 hosts with certificates would exceed the 1 MiB limit of a ConfigMap.
mod grouped {
    use std::collections::{BTreeMap, BTreeSet};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Key;

    type By<T> = BTreeMap<String, T>;

    pub(super) fn serialize<S: Serializer>(keys: &BTreeSet<Key>, to: S) -> Result<S::Ok, S::Error> {
        let mut groups: By<By<By<Vec<&str>>>> = By::new();
        for (api_version, kind, namespace, name) in keys {
            let kinds = groups.entry(api_version.clone()).or_default();
            let namespaces = kinds.entry(kind.clone()).or_default();
            namespaces.entry(namespace.clone()).or_default().push(name);
        }
        groups.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<Key>, D::Error> {
        let mut keys = BTreeSet::new();
        for (api_version, kinds) in <By<By<By<Vec<String>>>>>::deserialize(from)? {
            for (kind, namespaces) in kinds {
                for (namespace, names) in namespaces {
                    let key = |name| (api_version.clone(), kind.clone(), namespace.clone(), name);
                    keys.extend(names.into_iter().map(key));
                }
            }
        }
        Ok(keys)
    }
}

/// The original resources of a workload's container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Before {
    kind: String,
    namespace: String,
    name: String,
    container: String,
    resources: Value,
}

impl Before {
    fn object(&self) -> Object {
        Object::new("apps/v1", &self.kind, &self.namespace, &self.name)
    }
}

/// The gateways that already run in the cluster and that a run measures.
#[derive(Debug)]
pub struct ClusterGateways {
    cluster: Arc<Cluster>,
    site: Site,
    changes: Mutex<Changes>,
    /// By gateway: the applied objects of its routes. Unchanged objects are not applied again.
    applied: Mutex<BTreeMap<String, Applied>>,
    rollout_max: Duration,
    accepted_max: Duration,
}

impl ClusterGateways {
    /// The gateways of the run that `site` describes.
    pub fn new(cluster: Arc<Cluster>, site: Site) -> Self {
        Self {
            cluster,
            site,
            changes: Mutex::default(),
            applied: Mutex::default(),
            rollout_max: ROLLOUT_MAX,
            accepted_max: ACCEPTED_MAX,
        }
    }

    /// Sets two timeouts to `max`: the rollout timeout, and the timeout until a gateway accepts its routes.
    #[must_use]
    pub fn waiting(self, max: Duration) -> Self {
        Self { rollout_max: max, accepted_max: max, ..self }
    }

    /// Applies `objects`, the routes of `gateway`, and deletes its earlier routes that `objects` does not contain. With
    /// `accepted`, waits until the gateway has accepted the routes.
    ///
    /// # Errors
    /// [`PodError`] if the API rejects the routes, or the gateway does not accept them in time.
    pub fn put_routes(
        &self,
        gateway: &str,
        objects: &[Value],
        accepted: Option<&AcceptedFile>,
    ) -> Result<(), PodError> {
        let owner = self.owner(objects)?;
        let text = |object: &Value| Some((key_of(object)?, self.labelled(object, &owner).to_string()));
        let wanted: Applied = objects.iter().filter_map(text).collect();
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        let before = applied.get(gateway).cloned().unwrap_or_default();
        if before != wanted {
            self.record(|changes| changes.objects.extend(wanted.keys().cloned()))?;
            // Until all requests succeed, `applied` holds an empty text for each new, changed or removed object. If a
            // request fails, the next call finds these differences, and applies or deletes the objects again.
            let unchanged = |key| wanted.get(key).filter(|text| before.get(key) == Some(*text));
            let both = before.keys().chain(wanted.keys());
            let both = both.map(|key| (key.clone(), unchanged(key).cloned().unwrap_or_default())).collect();
            applied.insert(gateway.to_owned(), both);
            // Gateways with the same driver use the same object names, so the routes of one gateway replace those of
            // another.
            for (_, of) in applied.iter_mut().filter(|(other, _)| *other != gateway) {
                of.retain(|key, _| !wanted.contains_key(key));
            }
            let gone: Vec<Value> =
                before.keys().filter(|key| !wanted.contains_key(*key)).map(manifest_of).collect();
            self.cluster.delete(&gone).map_err(|error| refused(&error))?;
            // Applies only changed objects: if one of a thousand routes has changed, this needs only one request.
            let is_new =
                |object: &&Value| key_of(object).is_none_or(|key| before.get(&key) != wanted.get(&key));
            let changed: Vec<&Value> = objects.iter().filter(is_new).collect();
            for batch in changed.chunks(BATCH) {
                let labelled: Vec<Value> = batch.iter().map(|object| self.labelled(object, &owner)).collect();
                self.cluster.apply(&labelled, Duration::from_secs(10)).map_err(|error| {
                    let mut refused = refused(&error);
                    if !error.is_forbidden() {
                        refused.remedy = format!("check that the CRDs for {gateway} are installed");
                    }
                    refused
                })?;
            }
            applied.insert(gateway.to_owned(), wanted);
        }
        drop(applied);
        accepted.map_or(Ok(()), |accepted| self.await_accepted(gateway, accepted))
    }

    /// Whether an object is outside the run's namespace.
    fn is_elsewhere(&self, object: &Value) -> bool {
        object["metadata"]["namespace"] != self.site.namespace.as_str()
    }

    /// The owner of objects outside the run's namespace, so that Kubernetes deletes them with the namespace.
    fn owner(&self, objects: &[Value]) -> Result<Value, PodError> {
        if !self.site.is_own || !objects.iter().any(|object| self.is_elsewhere(object)) {
            return Ok(Value::Null);
        }
        let namespace = Object::global("v1", "Namespace", &self.site.namespace);
        let found = self.cluster.get(&namespace).map_err(|error| refused(&error))?;
        let uid = found.map(|of| of["metadata"]["uid"].clone()).unwrap_or_default();
        Ok(json!([{ "apiVersion": "v1", "kind": "Namespace", "name": self.site.namespace, "uid": uid }]))
    }

    /// Returns `object` with the labels of the run and, if it is outside the run's namespace, with `owner`.
    fn labelled(&self, object: &Value, owner: &Value) -> Value {
        let mut object = object.clone();
        for (label, value) in self.site.labels().as_object().into_iter().flatten() {
            object["metadata"]["labels"][label] = value.clone();
        }
        if self.is_elsewhere(&object) && !owner.is_null() {
            object["metadata"]["ownerReferences"] = owner.clone();
        }
        object
    }

    fn await_accepted(&self, gateway: &str, accepted: &AcceptedFile) -> Result<(), PodError> {
        let AcceptedFile { api_version, kind, condition } = accepted;
        let selected = Selected::new(api_version, kind, &self.site.namespace, &self.site.selector());
        let deadline = Instant::now() + self.accepted_max;
        loop {
            let asked = Instant::now();
            let objects = self.cluster.list(&selected).map_err(|error| refused(&error))?;
            let Some((name, why)) = objects.iter().find_map(|object| {
                let why = lacks(object, condition)?;
                Some((object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), why))
            }) else {
                return Ok(());
            };
            if Instant::now() >= deadline {
                let message = format!("{gateway}: {kind} {name} is not {condition}: {why}");
                let namespace = &self.site.namespace;
                let remedy =
                    format!("see the status of the object: kubectl describe {kind} {name} -n {namespace}");
                return Err(PodError::new("never-ready", message, remedy));
            }
            // Listing a thousand objects takes long, so the pause is at least twice as long as the request.
            thread::sleep(LOOK_EVERY.max(asked.elapsed() * 2));
        }
    }

    /// Sets the limits of a workload, replaces its pods, and waits until all of them run.
    ///
    /// # Errors
    /// [`PodError`] if the workload does not exist, or its pods are not ready in time.
    pub fn restart(&self, part: &str, workload: &Workload, limits: Limits) -> Result<PlacedPods, PodError> {
        let object = object_of(workload);
        let found = self.cluster.get(&object).map_err(|error| lacking(&error, &workload.namespace))?;
        let found = found.ok_or_else(|| {
            let message = format!(
                "{part}: namespace {} has no {} {}",
                workload.namespace,
                workload.kind.name(),
                workload.name
            );
            let remedy = "install the gateway, or set its workload: --set 'gateways.NAME.set={namespace: .., data: ..}'";
            PodError::new("binary-missing", message, remedy)
        })?;
        let containers = found["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
        let containers: Vec<&str> = containers.filter_map(|of| of["name"].as_str()).collect();
        if !containers.contains(&workload.container.as_str()) {
            let message = format!(
                "{part}: {} {}/{} has no container `{}`; its containers are {}",
                object.kind,
                workload.namespace,
                workload.name,
                workload.container,
                containers.join(", ")
            );
            return Err(PodError::new(
                "binary-missing",
                message,
                "set the workload of the gateway: --set 'gateways.NAME.set={namespace: .., data: ..}'",
            ));
        }
        let mut notes = Vec::new();
        let changed = self.change(&object, &found, workload, limits);
        let is_changed = match changed {
            Ok(()) => true,
            Err(error) if error.is_forbidden() => {
                notes.push(format!(
                    "no permission to change {} {}/{}: the scenario's limits do not apply, and all repeats use the same \
                     processes ({error})",
                    workload.kind.name(),
                    workload.namespace,
                    workload.name
                ));
                false
            }
            Err(error) => return Err(refused(&error)),
        };
        let pods = self.await_pods(part, workload)?;
        let mut placed = PlacedPods { notes, limits_applied: is_changed, ..pods };
        if !is_changed {
            placed.limits_applied = limits == Limits::default() || limits == placed.limits;
        }
        Ok(placed)
    }

    /// Records the original resources of the workload, then sets its limits and triggers a rollout.
    fn change(
        &self,
        object: &Object,
        found: &Value,
        workload: &Workload,
        limits: Limits,
    ) -> Result<(), KubeError> {
        let resources =
            container_of(&found["spec"]["template"]["spec"], &workload.container)["resources"].clone();
        let before = Before {
            kind: object.kind.clone(),
            namespace: workload.namespace.clone(),
            name: workload.name.clone(),
            container: workload.container.clone(),
            resources,
        };
        let mut is_first = false;
        self.try_record(|changes| {
            is_first = !changes.workloads.iter().any(|known| known.object() == *object);
            changes.workloads.extend(is_first.then_some(before));
        })?;
        let mut container = json!({ "name": workload.container });
        let resources = resources_of(limits);
        if !resources.is_null() {
            container["resources"] = resources;
        }
        let mut change = self.restarted();
        change["spec"]["template"]["spec"] = json!({ "containers": [container] });
        let changed = self.cluster.patch(object, &change).map(drop);
        if is_first && changed.as_ref().is_err_and(|error| !error.is_transient()) {
            // The change was rejected, so its record is removed: there is nothing to restore, and a restoration would
            // be rejected too.
            self.try_record(|changes| changes.workloads.retain(|known| known.object() != *object))?;
        }
        changed
    }

    /// Waits until all pods of the workload run, and no pod of an earlier template runs.
    ///
    /// # Errors
    /// [`PodError`] if the pods are not ready in time.
    pub fn await_pods(&self, part: &str, workload: &Workload) -> Result<PlacedPods, PodError> {
        let object = &object_of(workload);
        let deadline = Instant::now() + self.rollout_max;
        loop {
            let named = format!("{} {}/{}", object.kind, workload.namespace, workload.name);
            let found = self.cluster.get(object).map_err(|error| refused(&error))?.ok_or_else(|| {
                let message = format!("{part}: {named} was deleted");
                PodError::new("never-ready", message, "install the gateway again")
            })?;
            let pods = self.live_pods(&found, &workload.namespace)?;
            let live: Vec<&Value> = pods.iter().collect();
            let old = old_pods(&found, &live);
            let why = match is_rolled_out(&found) {
                Ok(()) if !old.is_empty() => format!("old pods still run: {}", old.join(", ")),
                Ok(()) => match placed(&live, workload) {
                    Some(placed) => return Ok(placed),
                    None => "its pods are not ready".to_owned(),
                },
                Err(why) => why,
            };
            if Instant::now() >= deadline {
                let failure = live.iter().find_map(|pod| match pod_state(pod) {
                    PodState::Failed(failure) => Some(format!(
                        "pod {}: {failure}",
                        pod["metadata"]["name"].as_str().unwrap_or_default()
                    )),
                    _ => None,
                });
                let message = format!(
                    "{part}: rollout of {named} not complete after {} s: {}",
                    self.rollout_max.as_secs(),
                    failure.unwrap_or(why)
                );
                let remedy =
                    "find the cause with `kubectl describe pods`; weir restores the limits that it changed";
                return Err(PodError::new("never-ready", message, remedy));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The pods of a workload that get load.
    fn live_pods(&self, workload: &Value, namespace: &str) -> Result<Vec<Value>, PodError> {
        let labels = workload["spec"]["selector"]["matchLabels"].as_object().cloned().unwrap_or_default();
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
            .collect();
        let selected = Selected::new("v1", "Pod", namespace, &labels.join(","));
        let mut pods = self.cluster.list(&selected).map_err(|error| lacking(&error, namespace))?;
        // Removes pods that get no load: old pods, which can take minutes to drain, and evicted pods, which stay
        // listed.
        let has_ended = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null() && !has_ended(pod));
        Ok(pods)
    }

    /// Injects a fault into the pods of a workload. `kill` and `evict` affect the first running pod.
    ///
    /// # Errors
    /// [`PodError`] if the API rejects the request, or no pod runs.
    pub fn disturb(&self, part: &str, workload: &Workload, action: FaultAction) -> Result<(), PodError> {
        let object = object_of(workload);
        let namespace = &workload.namespace;
        let failed = |error: KubeError| {
            let mut failed = lacking(&error, namespace);
            if matches!(error, KubeError::Refused { status: Some(429), .. }) {
                failed.remedy =
                    "the PodDisruptionBudget does not allow the eviction: run more replicas, or use `kill`"
                        .into();
            }
            failed
        };
        if action == FaultAction::Rollout {
            return self.cluster.patch(&object, &self.restarted()).map(drop).map_err(failed);
        }
        let found = self.cluster.get(&object).map_err(failed)?.unwrap_or_default();
        let pods = self.live_pods(&found, namespace)?;
        let running = pods.iter().find(|pod| matches!(pod_state(pod), PodState::Running(_)));
        let Some(name) = running.and_then(|pod| pod["metadata"]["name"].as_str()) else {
            let message = format!("{part}: no pod is running, so weir cannot kill or evict one");
            return Err(PodError::new("pod", message, "leave more time between two faults"));
        };
        match action {
            FaultAction::Evict => self.cluster.evict(namespace, name),
            _ => self.cluster.kill(namespace, name),
        }
        .map_err(failed)
    }

    /// The patch that triggers a rollout of a workload.
    fn restarted(&self) -> Value {
        let mark = format!("{}-{}", self.site.run, weir_rig::mono_ns());
        json!({ "spec": { "template": { "metadata": { "annotations": { RESTARTED: mark } } } } })
    }

    /// The cluster IP of a Service.
    ///
    /// # Errors
    /// [`PodError`] if the Service does not exist or has no cluster IP.
    pub fn service(&self, service: &DataService) -> Result<IpAddr, PodError> {
        let DataService { namespace, name, .. } = service;
        let object = Object::new("v1", "Service", namespace, name);
        let found = self.cluster.get(&object).map_err(|error| lacking(&error, namespace))?;
        let address = found.as_ref().and_then(|found| found["spec"]["clusterIP"].as_str()?.parse().ok());
        address.ok_or_else(|| {
            let message = format!("the Service {namespace}/{name} does not exist, or has no cluster IP");
            let remedy =
                "create the Service, or set another Service in the driver: kubernetes: { service: { name: .. } }";
            PodError::new("binary-missing", message, remedy)
        })
    }

    fn record(&self, change: impl FnOnce(&mut Changes)) -> Result<(), PodError> {
        self.try_record(change).map_err(|error| refused(&error))
    }

    /// Applies `change` to the record, and stores the record in the cluster. weir calls this before it changes another
    /// object.
    fn try_record(&self, change: impl FnOnce(&mut Changes)) -> Result<(), KubeError> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if *changes == Changes::default() {
            // An earlier coordinator of this run may have left a record.
            let record = record_of(&self.site);
            if let Some(found) = self.cluster.get(&record)? {
                *changes = changes_in(&found).map_err(|error| KubeError::Refused {
                    what: format!("ConfigMap {}", record.name),
                    why: error.to_string(),
                    status: Some(0),
                })?;
            }
        }
        let before = changes.clone();
        change(&mut changes);
        if *changes == before {
            return Ok(());
        }
        let record = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self.site.metadata(&self.site.name(RECORD)),
            "data": { RECORD_KEY: serde_json::to_string(&*changes).unwrap_or_default() },
        });
        self.cluster.apply(&[record], Duration::ZERO)
    }

    /// Restores everything that the run has changed, and removes its routes. A second call does nothing.
    ///
    /// # Errors
    /// [`PodError`] if something cannot be restored. The record then stays in the cluster.
    pub fn restore(&self) -> Result<(), PodError> {
        restore(&self.cluster, &self.site)?;
        // The record in the cluster is deleted, so clear its copy here.
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner) = Changes::default();
        self.applied.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }
}

/// The ConfigMap with the changes of a run.
fn record_of(site: &Site) -> Object {
    Object::new("v1", "ConfigMap", &site.namespace, &site.name(RECORD))
}

fn changes_in(record: &Value) -> Result<Changes, serde_json::Error> {
    serde_json::from_str(record["data"][RECORD_KEY].as_str().unwrap_or_default())
}

/// Restores everything in the record of the run that `site` describes, and deletes the record.
///
/// # Errors
/// [`PodError`] if something cannot be restored. The record then stays in the cluster.
pub(super) fn restore(cluster: &Cluster, site: &Site) -> Result<(), PodError> {
    let record = record_of(site);
    let Some(found) = cluster.get(&record).map_err(|error| refused(&error))? else { return Ok(()) };
    let changes = changes_in(&found).map_err(|error| {
        let message = format!("ConfigMap {}: {error}", record.name);
        PodError::new("kubernetes", message, "restore the resources of the gateway's workloads manually")
    })?;
    let mut failed = None;
    for before in &changes.workloads {
        let Before { container, resources, .. } = before;
        let mut put = json!({ "$patch": "replace" });
        for (key, value) in resources.as_object().into_iter().flatten() {
            put[key] = value.clone();
        }
        let change = json!({ "spec": { "template": {
            "metadata": { "annotations": { RESTARTED: Value::Null } },
            "spec": { "containers": [{ "name": container, "resources": put }] },
        } } });
        match cluster.patch(&before.object(), &change) {
            // If the workload was deleted meanwhile, nothing needs to be restored.
            Err(KubeError::Refused { status: Some(404), .. }) | Ok(_) => {}
            // The other workloads are restored nevertheless.
            Err(error) => failed = failed.or_else(|| Some(refused(&error))),
        }
    }
    let objects: Vec<Value> = changes.objects.iter().map(manifest_of).collect();
    let deleted = cluster.delete(&objects).map_err(|error| refused(&error));
    failed.map_or(deleted, Err)?;
    cluster.remove(&record, Duration::ZERO).map_err(|error| refused(&error))
}

fn object_of(workload: &Workload) -> Object {
    Object::new("apps/v1", workload.kind.name(), &workload.namespace, &workload.name)
}

/// The identity of an object; `None` if API version, kind or name is missing.
fn key_of(object: &Value) -> Option<Key> {
    let Object { api_version, kind, namespace, name } = Object::of(object)?;
    Some((api_version, kind, namespace.unwrap_or_default(), name))
}

/// A manifest with only the identity of an object, enough to delete it.
fn manifest_of((api_version, kind, namespace, name): &Key) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "namespace": namespace, "name": name } })
}

/// Why the condition `condition` of an object is not `True`; `None` if it is.
fn lacks(object: &Value, condition: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|of| of["type"] == condition);
    let is_stale = |found: &Value| {
        let seen = found["observedGeneration"].as_i64();
        seen.is_some_and(|seen| object["metadata"]["generation"].as_i64().is_some_and(|now| seen < now))
    };
    match found {
        Some(found) if is_stale(found) => {
            Some("no controller has processed the change yet; is the control plane running?".into())
        }
        Some(found) if found["status"] == "True" => None,
        Some(found) => {
            let errors = found["errors"].as_array().into_iter().flatten();
            let details: Vec<&str> = errors.filter_map(|error| error["message"].as_str()).collect();
            let message = found["message"].as_str().unwrap_or("the condition is not True");
            Some([&[message], &details[..]].concat().join("; "))
        }
        None => Some("no controller has processed the object yet; is the control plane running?".into()),
    }
}

/// Checks that all pods of a Deployment or DaemonSet have its current template and are available. The error describes
/// what is missing.
fn is_rolled_out(object: &Value) -> Result<(), String> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return Err("its controller has not observed the change".into());
    }
    let (wanted, updated, available) = match object["kind"].as_str() {
        Some("DaemonSet") => (
            number("/status/desiredNumberScheduled"),
            number("/status/updatedNumberScheduled"),
            number("/status/numberAvailable"),
        ),
        _ => (
            object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1),
            number("/status/updatedReplicas"),
            number("/status/availableReplicas"),
        ),
    };
    let old = number("/status/replicas") - number("/status/updatedReplicas");
    match updated >= wanted && available >= wanted && wanted > 0 {
        true if old > 0 => Err(format!("{old} old pods still exist")),
        true => Ok(()),
        false => Err(format!("{updated} of {wanted} pods are updated, {available} are available")),
    }
}

/// The names of pods that an earlier template of the workload created. During a rollout, these pods can be the only
/// available ones.
fn old_pods<'a>(workload: &Value, pods: &[&'a Value]) -> Vec<&'a str> {
    let mark = &workload["spec"]["template"]["metadata"]["annotations"][RESTARTED];
    let is_old = |pod: &&&Value| mark.is_string() && pod["metadata"]["annotations"][RESTARTED] != *mark;
    pods.iter().filter(is_old).filter_map(|pod| pod["metadata"]["name"].as_str()).collect()
}

/// The pods of a workload after its rollout; `None` until all of them run.
fn placed(pods: &[&Value], workload: &Workload) -> Option<PlacedPods> {
    let mut placed = PlacedPods::default();
    for pod in pods {
        let PodState::Running(address) = pod_state(pod) else { return None };
        let text =
            |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let status = |list: &str| pod["status"][list].as_array().cloned().unwrap_or_default();
        let statuses = status("containerStatuses");
        let of = statuses.iter().find(|of| of["name"] == workload.container.as_str())?;
        let container_id = of["containerID"].as_str().unwrap_or_default();
        placed.pods.push(PlacedPod {
            name: text("/metadata/name"),
            address,
            node_address: text("/status/hostIP").parse().ok()?,
            node: text("/spec/nodeName"),
            container_id: container_id.rsplit('/').next().unwrap_or_default().to_owned(),
        });
        let image_id = of["imageID"].as_str().unwrap_or_default();
        let id = digest_of(image_id);
        let container = container_of(&pod["spec"], &workload.container);
        let name = container["image"].as_str().unwrap_or_default().to_owned();
        placed.image = Some(PartImage { name, id, digest: None, engine: "Kubernetes".into() });
        placed.limits = Limits {
            cpus: container["resources"]["limits"]["cpu"].as_str().and_then(cores),
            memory_bytes: container["resources"]["limits"]["memory"].as_str().and_then(bytes),
        };
    }
    (!placed.pods.is_empty()).then_some(placed)
}

fn container_of(pod_spec: &Value, name: &str) -> Value {
    let containers = pod_spec["containers"].as_array();
    containers.into_iter().flatten().find(|of| of["name"] == name).cloned().unwrap_or_default()
}

/// Parses a Kubernetes quantity of CPU, like `500m`, `2` or `0.5`, as cores.
pub fn cores(quantity: &str) -> Option<f64> {
    match quantity.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<f64>().ok().map(|of| of / 1000.0),
        None => quantity.parse().ok(),
    }
}

/// Parses a Kubernetes quantity of memory, like `512Mi`, `1G` or a plain number, as bytes.
fn bytes(quantity: &str) -> Option<u64> {
    let split = quantity.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(split);
    let factor = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| (number * f64::from(factor)) as u64)
}

/// Converts the error of a request in the namespace of the gateway. If a permission is missing there, the remedy is to
/// grant it.
fn lacking(error: &KubeError, namespace: &str) -> PodError {
    let mut refused = refused(error);
    if error.is_forbidden() {
        refused.remedy = format!(
            "grant weir access to the gateway in namespace {namespace}: add --grant, or apply the Role that \
             `weir k8s render SCENARIO --grant` prints"
        );
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_ten_thousand_hosts_fits_a_config_map() {
        let of = |kind: &str, host: u32| {
            let name = format!("weir-20261127-0857-4kkc-{host}");
            ("networking.istio.io/v1".into(), kind.into(), "weir-20261127-0857-4kkc".into(), name)
        };
        let objects =
            (1..=10_000).flat_map(|host| [of("VirtualService", host), of("Secret", host)]).collect();
        let changes = Changes { workloads: Vec::new(), objects };
        let text = serde_json::to_string(&changes).unwrap();
        assert!(text.len() < 1 << 20, "{}", text.len());
        assert_eq!(serde_json::from_str::<Changes>(&text).unwrap(), changes);
    }

    #[test]
    fn quantities_are_parsed() {
        assert_eq!(
            (cores("500m"), cores("2"), cores("0.5"), cores("x")),
            (Some(0.5), Some(2.0), Some(0.5), None)
        );
        assert_eq!(
            (bytes("512Mi"), bytes("1G"), bytes("7")),
            (Some(512 << 20), Some(1_000_000_000), Some(7))
        );
        assert_eq!(bytes("1Ti"), None);
    }

    #[test]
    fn a_rollout_is_complete_when_all_pods_are_updated() {
        let deployment = |generation: i64, updated: i64, available: i64| {
            json!({ "kind": "Deployment", "metadata": { "generation": 2 }, "spec": { "replicas": 2 }, "status": {
                "observedGeneration": generation, "replicas": 2, "updatedReplicas": updated,
                "availableReplicas": available } })
        };
        assert_eq!(is_rolled_out(&deployment(2, 2, 2)), Ok(()));
        assert_eq!(
            is_rolled_out(&deployment(1, 2, 2)),
            Err("its controller has not observed the change".into())
        );
        assert_eq!(
            is_rolled_out(&deployment(2, 1, 2)),
            Err("1 of 2 pods are updated, 2 are available".into())
        );
        let mut surging = deployment(2, 2, 2);
        surging["status"]["replicas"] = json!(3);
        assert_eq!(is_rolled_out(&surging), Err("1 old pods still exist".into()));
        let daemons = json!({ "kind": "DaemonSet", "metadata": { "generation": 1 }, "status": {
            "observedGeneration": 1, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberAvailable": 0 } });
        assert_eq!(is_rolled_out(&daemons), Err("1 of 1 pods are updated, 0 are available".into()));
    }

    #[test]
    fn conditions_contain_the_error() {
        let proxy = |conditions: Value| json!({ "status": { "conditions": conditions } });
        assert_eq!(lacks(&proxy(json!([{ "type": "Valid", "status": "True" }])), "Valid"), None);
        let wrong = json!([{ "type": "Valid", "status": "False", "message": "At least one error present",
            "errors": [{ "message": "Spec.VirtualHost.TLS Secret not found" }] }]);
        assert_eq!(
            lacks(&proxy(wrong), "Valid").unwrap(),
            "At least one error present; Spec.VirtualHost.TLS Secret not found"
        );
        assert!(lacks(&json!({}), "Valid").unwrap().starts_with("no controller has processed the object"));
    }
}
