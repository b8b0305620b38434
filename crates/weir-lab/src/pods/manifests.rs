//! The manifests that the command line applies to start a run: its namespace, the rights of its coordinator, its
//! scenario, and the coordinator pod.

use serde_json::{Value, json};

use super::container::{mount, resources};
use super::{AgentSize, Site, chunked, chunks};

/// What the coordinator gets.
const COORDINATOR_SIZE: AgentSize = AgentSize { cpus: 0.2, memory_bytes: 512 << 20 };

/// How long the coordinator may take to end its pods and restore what it changed, seconds.
const GRACE_SECONDS: u32 = 60;

/// The rights of the coordinator in the namespace of its run: API group, resources, verbs.
pub const RIGHTS: [(&str, &[&str], &[&str]); 7] = [
    ("", &["pods"], &["get", "list"]),
    // Why a pod was not made.
    ("", &["events"], &["get", "list"]),
    ("", &["pods/log"], &["get"]),
    ("", &["secrets"], &["get", "list", "create", "patch", "delete"]),
    ("apps", &["deployments"], &["get", "list", "create", "patch", "delete"]),
    ("batch", &["jobs"], &["get", "list", "create", "patch", "delete"]),
    // A Role may speak of its own namespace: the last thing that the coordinator removes.
    ("", &["namespaces"], &["get", "delete"]),
];

/// The namespace that is made for a run.
pub fn namespace_manifest(site: &Site) -> Value {
    let mut labels = site.labels();
    labels["pod-security.kubernetes.io/enforce"] = json!("restricted");
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": site.namespace, "labels": labels },
    })
}

/// What starts the coordinator of a run, in the order in which it is applied. `archive` is the run; `arguments` are further
/// ones of the coordinator.
pub fn coordinator_manifests(site: &Site, archive: &[u8], arguments: &[String]) -> Vec<Value> {
    let name = site.name("coordinator");
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
    // A namespace that was there before stays.
    let rights = RIGHTS.iter().filter(|(_, resources, _)| site.is_own || !resources.contains(&"namespaces"));
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": site.metadata(&name),
        "rules": rights.map(rule).collect::<Vec<_>>(),
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": site.metadata(&name),
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": site.namespace }],
    });
    let secrets = chunked(site, "scenario", archive);
    let pod = coordinator(site, &name, secrets.len(), arguments);
    [account, role, binding].into_iter().chain(secrets).chain([pod]).collect()
}

fn coordinator(site: &Site, name: &str, chunks: usize, arguments: &[String]) -> Value {
    let mut command: Vec<String> =
        ["weir", "k8s", "coordinate", "--from", "/scenario"].map(str::to_owned).to_vec();
    command.extend(arguments.iter().cloned());
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
