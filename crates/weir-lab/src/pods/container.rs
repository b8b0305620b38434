//! The basic manifests of containers and pods, which all pods of a run share.

use serde_json::{Value, json};
use weir_rig::Limits;

use super::site::{USER, cpu_quantity};
use super::{AgentSize, Site};

/// Maximum CPU request of a container with limits, cores.
const REQUESTED_CPUS: f64 = 0.01;
/// Maximum memory request of a container with limits.
const REQUESTED_BYTES: u64 = 32 << 20;

/// Time between SIGTERM and SIGKILL when a pod ends, seconds.
const GRACE_SECONDS: u32 = 5;

impl Site {
    /// A container that meets the `restricted` level of Pod Security.
    pub(super) fn container(&self, name: &str, image: &str, command: Value, resources: Value) -> Value {
        json!({
            "name": name,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": command,
            "resources": resources,
            "env": [
                { "name": "TMPDIR", "value": "/tmp" },
                { "name": "WEIR_STATE_DIR", "value": "/tmp/state" },
                { "name": "HOME", "value": "/tmp" },
            ],
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
                "runAsNonRoot": true,
                "runAsUser": USER,
                "runAsGroup": USER,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp" }],
        })
    }

    /// A pod without a token of a service account.
    pub(super) fn pod(&self, containers: Value, volumes: Value) -> Value {
        json!({
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": { "fsGroup": USER },
            "containers": containers,
            "volumes": volumes,
        })
    }
}

/// Mounts the volume `volume` at `path` in a container.
pub(super) fn mount(container: &mut Value, volume: &str, path: &str, read_only: bool) {
    if let Some(mounts) = container["volumeMounts"].as_array_mut() {
        mounts.push(json!({ "name": volume, "mountPath": path, "readOnly": read_only }));
    }
}

/// Resource requests and limits of a container; zero means none.
pub(super) fn resources(requests: AgentSize, limits: AgentSize) -> Value {
    let quantities = |size: AgentSize| {
        let mut quantities = json!({});
        if size.cpus > 0.0 {
            quantities["cpu"] = json!(cpu_quantity(size.cpus));
        }
        if size.memory_bytes > 0 {
            quantities["memory"] = json!(size.memory_bytes.to_string());
        }
        quantities
    };
    json!({ "requests": quantities(requests), "limits": quantities(limits) })
}

/// The `resources` of a container with these limits; null if there are none.
///
/// Sets small resource requests. They do not exceed the limits, because Kubernetes rejects that. Without requests,
/// Kubernetes uses the limits as requests, and a new pod may then not fit beside the old one.
pub fn resources_of(limits: Limits) -> Value {
    if !limits.any() {
        return Value::Null;
    }
    let mut resources = json!({ "requests": {
        "cpu": cpu_quantity(limits.cpus.unwrap_or(f64::INFINITY).min(REQUESTED_CPUS)),
        "memory": limits.memory_bytes.unwrap_or(u64::MAX).min(REQUESTED_BYTES).to_string(),
    } });
    if let Some(cpus) = limits.cpus {
        resources["limits"]["cpu"] = json!(cpu_quantity(cpus));
    }
    if let Some(bytes) = limits.memory_bytes {
        resources["limits"]["memory"] = json!(bytes.to_string());
    }
    resources
}
