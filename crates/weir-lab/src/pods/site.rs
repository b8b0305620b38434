//! The namespace, names and labels of a run's objects.

use serde_json::{Value, json};

/// The label with the ID of the run that created an object.
pub(crate) const RUN_LABEL: &str = "weir/run";
/// The label with the name of the part that a pod runs.
pub(crate) const PART_LABEL: &str = "weir/part";

/// User and group ID of all containers.
pub(super) const USER: u32 = 65_532;

/// The namespace of a run, and the settings of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Name of the namespace.
    pub namespace: String,
    /// Whether the namespace was created for the run, and is deleted with it.
    pub is_own: bool,
    /// ID of the run.
    pub run: String,
    /// The container image that contains weir.
    pub image: String,
    /// Whether agents may see all processes on the nodes of gateways.
    pub has_samplers: bool,
}

/// CPU and memory of a container. The default is for an agent that generates load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgentSize {
    /// CPU, cores.
    pub cpus: f64,
    /// Memory, bytes.
    pub memory_bytes: u64,
}

impl Default for AgentSize {
    fn default() -> Self {
        Self { cpus: 1.0, memory_bytes: 512 << 20 }
    }
}

impl Site {
    /// The name of the namespace that is created for a run.
    pub fn own_namespace(run: &str) -> String {
        format!("weir-{run}")
    }

    /// The name of an object of the run. It contains the run ID, so it is unique in a shared namespace.
    pub(crate) fn name(&self, of: &str) -> String {
        label(&format!("weir-{}-{of}", self.run))
    }

    /// The name of the coordinator pod.
    pub fn coordinator(&self) -> String {
        self.name("coordinator")
    }

    /// The label selector that matches all objects of the run.
    pub fn selector(&self) -> String {
        format!("{RUN_LABEL}={}", self.run)
    }

    /// The metadata of an object with the name `name`.
    pub(crate) fn metadata(&self, name: &str) -> Value {
        json!({ "name": name, "namespace": self.namespace, "labels": self.labels() })
    }

    /// The labels that every object of the run has.
    pub(crate) fn labels(&self) -> Value {
        json!({ "app.kubernetes.io/managed-by": "weir", RUN_LABEL: self.run })
    }
}

/// Converts `name` into a valid name of an object or container.
pub(crate) fn label(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(plain).collect::<String>().trim_matches('-').to_owned()
}

/// Cores as a Kubernetes quantity: `500m`.
pub(super) fn cpu_quantity(cpus: f64) -> String {
    format!("{}m", (cpus * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_dns_labels() {
        let site = Site {
            namespace: "n".into(),
            is_own: false,
            run: "20261126-1450-abcd".into(),
            image: "weir:1".into(),
            has_samplers: false,
        };
        assert_eq!(site.name("cell 3_Envoy."), "weir-20261126-1450-abcd-cell-3-envoy");
        assert_eq!(cpu_quantity(0.5), "500m");
    }
}
