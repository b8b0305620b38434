//! The manifests that the command line applies to start a run: its namespace, the permissions of its coordinator, its
//! scenario, and the coordinator pod.

use serde_json::{Value, json};
use weir_rig::{Drivers, RigError, RightFile};

use super::container::{mount, resources};
use super::{AgentSize, Site, chunked, chunks};
use crate::scenario::Scenario;

/// Resources of the coordinator.
const COORDINATOR_SIZE: AgentSize = AgentSize { cpus: 0.2, memory_bytes: 512 << 20 };

/// Time in which the coordinator can end its pods and restore its changes after SIGTERM, seconds.
const GRACE_SECONDS: u32 = 60;

/// The permissions of the coordinator in the namespace of its run: API group, resources, verbs.
pub const RIGHTS: [(&str, &[&str], &[&str]); 8] = [
    ("", &["pods"], &["get", "list"]),
    // Events contain the reason if a pod cannot be created.
    ("", &["events"], &["get", "list"]),
    ("", &["pods/log"], &["get"]),
    ("", &["secrets"], &["get", "list", "create", "patch", "delete"]),
    ("", &["configmaps", "services"], &["get", "list", "create", "patch", "delete"]),
    ("apps", &["deployments"], &["get", "list", "create", "patch", "delete"]),
    ("batch", &["jobs"], &["get", "list", "create", "patch", "delete"]),
    // The coordinator deletes its own namespace last, if it was created for the run.
    ("", &["namespaces"], &["get", "delete"]),
];

/// A rule of an RBAC Role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    group: String,
    resources: Vec<String>,
    verbs: Vec<String>,
    /// The names of the objects; empty means all objects.
    names: Vec<String>,
}

/// The permissions that gateways in the cluster need in addition to [`RIGHTS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayRights {
    /// Permissions in the namespace of the run.
    here: Vec<Right>,
    /// Permissions that the user must grant in the namespaces of gateways: one entry per namespace.
    there: Vec<(String, Vec<Right>)>,
}

/// The verbs for objects that weir itself creates, changes and deletes.
const OWN_VERBS: [&str; 5] = ["get", "list", "create", "patch", "delete"];

impl Right {
    fn new(group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self { group: group.into(), resources: owned(resources), verbs: owned(verbs), names: Vec::new() }
    }

    fn rule(&self) -> Value {
        let Self { group, resources, verbs, names } = self;
        let mut rule = json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        rule
    }
}

impl GatewayRights {
    /// The permissions for the gateways of `scenario` in the run `run`.
    ///
    /// # Errors
    /// [`RigError`] if a driver is unknown, or does not have a setting that the scenario uses.
    pub fn of(scenario: &Scenario, drivers: &Drivers, run: &str) -> Result<Self, RigError> {
        let mut rights = Self::default();
        for gateway in scenario.gateways.iter().filter(|gateway| !gateway.is_remote()) {
            let driver = drivers.driver(&gateway.driver)?;
            let Some(of) = driver.kubernetes() else { continue };
            let words = |words: &[String]| words.to_vec();
            let own = |right: &RightFile| Right {
                resources: words(&right.resources),
                ..Right::new(&right.group, &[], &OWN_VERBS)
            };
            let is_beside = |right: &&RightFile| right.beside_data;
            rights.here.extend(of.rights.iter().filter(|right| !right.beside_data).map(own));
            let has_faults = scenario.faults.iter().any(|fault| fault.gateway.is_some());
            for (place, (namespace, names)) in
                driver.cluster_workloads(&gateway.set.to_map(), run)?.into_iter().enumerate()
            {
                let workloads = Right::new("apps", &["deployments", "daemonsets"], &["get", "patch"]);
                let mut there =
                    vec![Right { names, ..workloads }, Right::new("", &["pods"], &["get", "list"])];
                if has_faults {
                    there.push(Right::new("", &["pods"], &["delete"]));
                    there.push(Right::new("", &["pods/eviction"], &["create"]));
                    there.push(Right::new("", &["services"], &["get"]));
                }
                if place == 0 {
                    there.extend(of.rights.iter().filter(is_beside).map(own));
                }
                rights.add(namespace, there);
            }
        }
        Ok(rights)
    }

    /// Adds permissions in the namespace of a gateway. Several gateways can share a namespace, which gets one Role.
    fn add(&mut self, namespace: String, rights: Vec<Right>) {
        let place = self.there.iter().position(|(known, _)| *known == namespace);
        let place = place.unwrap_or_else(|| {
            self.there.push((namespace, Vec::new()));
            self.there.len() - 1
        });
        for right in rights {
            if !self.there[place].1.contains(&right) {
                self.there[place].1.push(right);
            }
        }
    }

    /// Whether there are no permissions that the user must grant.
    pub fn is_empty(&self) -> bool {
        self.there.is_empty()
    }
}

/// The Roles and the ClusterRole that let the coordinator of a run change gateways in their own namespaces, and read
/// their usage from kubelets. `uid` is the UID of the run's namespace if the namespace was created for the run;
/// otherwise `None`. With `uid`, the namespace owns these objects, so that Kubernetes deletes them with the namespace.
pub fn grant_manifests(site: &Site, rights: &GatewayRights, uid: Option<&str>) -> Vec<Value> {
    let account = site.coordinator();
    // A gateway can be in the run's namespace, which already has a Role named like the account. The suffix avoids a
    // conflict.
    let name = format!("{account}-gateways");
    let subjects = json!([{ "kind": "ServiceAccount", "name": account, "namespace": site.namespace }]);
    let metadata = |namespace: Option<&str>| {
        let mut metadata = json!({ "name": name, "labels": site.labels() });
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        if let Some(uid) = uid {
            metadata["ownerReferences"] =
                json!([{ "apiVersion": "v1", "kind": "Namespace", "name": site.namespace, "uid": uid }]);
        }
        metadata
    };
    let pair = |prefix: &str, namespace: Option<&str>, rules: Vec<Value>| {
        let kind = format!("{prefix}Role");
        [
            json!({ "apiVersion": RBAC, "kind": kind, "metadata": metadata(namespace), "rules": rules }),
            json!({
                "apiVersion": RBAC,
                "kind": format!("{kind}Binding"),
                "metadata": metadata(namespace),
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
                "subjects": subjects,
            }),
        ]
    };
    let mut manifests = Vec::new();
    for (namespace, there) in &rights.there {
        manifests.extend(pair("", Some(namespace), there.iter().map(Right::rule).collect()));
    }
    let kubelets = Right::new("", &["nodes/metrics"], &["get"]);
    manifests.extend(pair("Cluster", None, vec![kubelets.rule()]));
    manifests
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The manifest of the namespace that is created for a run.
pub fn namespace_manifest(site: &Site) -> Value {
    let mut labels = site.labels();
    // `privileged` is the only level that lets an agent see the processes of a node.
    let level = if site.has_samplers { "privileged" } else { "restricted" };
    labels["pod-security.kubernetes.io/enforce"] = json!(level);
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": site.namespace, "labels": labels },
    })
}

/// The manifests that start the coordinator of a run, in the order in which they are applied. `archive` is the archive
/// of the run, which the coordinator reads.
pub fn coordinator_manifests(site: &Site, archive: &[u8], gateways: &GatewayRights) -> Vec<Value> {
    let name = site.coordinator();
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": site.metadata(&name),
        "automountServiceAccountToken": false,
    });
    let rule = |(group, resources, verbs): &(&str, &[&str], &[&str])| {
        let mut rule = json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
        if resources.contains(&"namespaces") {
            rule["resourceNames"] = json!([site.namespace]);
        }
        rule
    };
    // A namespace that existed before the run must stay, so the coordinator gets no permission to delete it.
    let rights = RIGHTS.iter().filter(|(_, resources, _)| site.is_own || !resources.contains(&"namespaces"));
    let role = json!({
        "apiVersion": RBAC,
        "kind": "Role",
        "metadata": site.metadata(&name),
        "rules": rights.map(rule).chain(gateways.here.iter().map(Right::rule)).collect::<Vec<_>>(),
    });
    let binding = json!({
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": site.metadata(&name),
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": site.namespace }],
    });
    let secrets = chunked(site, "scenario", archive);
    let pod = coordinator(site, &name, secrets.len());
    [account, role, binding].into_iter().chain(secrets).chain([pod]).collect()
}

fn coordinator(site: &Site, name: &str, chunks: usize) -> Value {
    let command = ["weir", "k8s", "coordinate", "--from", "/scenario"];
    let size = COORDINATOR_SIZE;
    let mut container = site.container("coordinator", &site.image, json!(command), resources(size, size));
    let field =
        |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let variables = [
        field("WEIR_POD_ADDRESS", "status.podIP"),
        field("WEIR_POD_NAMESPACE", "metadata.namespace"),
        json!({ "name": "WEIR_IMAGE", "value": site.image }),
        json!({ "name": "WEIR_RUN", "value": site.run }),
        json!({ "name": "WEIR_OWN_NAMESPACE", "value": site.is_own.to_string() }),
        json!({ "name": "WEIR_SAMPLERS", "value": site.has_samplers.to_string() }),
    ];
    if let Some(env) = container["env"].as_array_mut() {
        env.extend(variables);
    }
    mount(&mut container, "scenario", "/scenario", true);
    let mut pod = site.pod(
        json!([container]),
        json!([chunks::volume(site, "scenario", "scenario", chunks), { "name": "tmp", "emptyDir": {} }]),
    );
    pod["restartPolicy"] = json!("Never");
    pod["serviceAccountName"] = json!(name);
    pod["automountServiceAccountToken"] = json!(true);
    pod["terminationGracePeriodSeconds"] = json!(GRACE_SECONDS);
    let mut metadata = site.metadata(name);
    metadata["labels"][super::site::PART_LABEL] = json!("coordinator");
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod })
}
