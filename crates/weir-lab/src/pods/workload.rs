//! The manifests of the pods that a run creates: agents in one Job, upstreams and gateways in Deployments.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use weir_results::Role;
use weir_rig::Limits;

use super::container::{mount, resources};
use super::site::{PART_LABEL, RUN_LABEL};
use super::{AgentSize, Site, chunks};

/// The label with the role of the part that a pod runs.
const ROLE_LABEL: &str = "weir/role";

/// Resources of the agent in the pod of a gateway or upstream. The agent's CPU time is not part of the CPU time of the
/// gateway or upstream.
const SAMPLER_SIZE: AgentSize = AgentSize { cpus: 0.1, memory_bytes: 64 << 20 };

/// Maximum CPU request of an upstream, cores. Its CPU limit can be higher, and comes from the scenario.
const ORIGIN_REQUEST: f64 = 0.1;

/// The Job with the agents that generate the load of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobSpec<'a> {
    /// Name of the Job, without the prefix that contains the run ID.
    pub(crate) name: &'a str,
    pub(crate) agents: u32,
    pub(crate) size: AgentSize,
    /// The address where the agents join.
    pub(crate) join: SocketAddr,
    /// Name under which Secrets store the agents' ticket.
    pub(crate) ticket: &'a str,
    /// Maximum lifetime of the agents, seconds.
    pub(crate) deadline_s: u64,
}

/// Files from Secrets, which a container unpacks into the pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mounted<'a> {
    /// Name under which Secrets store the files.
    pub(crate) data: &'a str,
    /// Number of Secrets that store the files.
    pub(crate) chunks: usize,
    /// A folder that contains all files.
    pub(crate) root: &'a Path,
}

/// The pod of a gateway or upstream, with an agent that samples it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodSpec<'a> {
    /// Name of the Deployment, without the prefix that contains the run ID.
    pub(crate) name: &'a str,
    /// Name of the gateway or upstream in the report.
    pub(crate) part: &'a str,
    pub(crate) role: Role,
    pub(crate) image: &'a str,
    pub(crate) command: &'a [String],
    pub(crate) env: &'a [(String, String)],
    pub(crate) limits: Limits,
    /// Files of the gateway or upstream.
    pub(crate) files: Option<Mounted<'a>>,
    /// The address where the agent joins.
    pub(crate) join: SocketAddr,
    /// Name under which Secrets store the agent's ticket.
    pub(crate) ticket: &'a str,
}

impl Site {
    /// The labels of a pod: the labels of every object, plus the pod's part and role.
    fn pod_labels(&self, part: &str, role: Role) -> Value {
        let mut labels = self.labels();
        labels[PART_LABEL] = json!(part);
        labels[ROLE_LABEL] = serde_json::to_value(role).unwrap_or_default();
        labels
    }

    /// The Job of the agents that generate load. Each pod is one agent. Lost pods are not replaced, because the loss of
    /// one agent ends the load on all agents.
    pub(crate) fn job(&self, spec: &JobSpec<'_>) -> Value {
        let name = self.name(spec.name);
        let labels = self.pod_labels(spec.name, Role::Generator);
        let container = self.agent("agent", "agent-$(JOB_COMPLETION_INDEX)", spec.join, spec.size);
        let spread = json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": labels.clone() },
        }]);
        let mut pod = self.pod(json!([container]), json!(self.agent_volumes(spec.ticket)));
        pod["restartPolicy"] = json!("Never");
        pod["topologySpreadConstraints"] = spread;
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self.metadata(&name),
            "spec": {
                "completionMode": "Indexed",
                "completions": spec.agents,
                "parallelism": spec.agents,
                "backoffLimit": 0,
                "activeDeadlineSeconds": spec.deadline_s,
                "ttlSecondsAfterFinished": 300,
                "template": { "metadata": { "labels": labels }, "spec": pod },
            },
        })
    }

    /// The Service of the upstream, which leads to all of its servers. Gateways that already run in the cluster use it.
    pub(crate) fn upstream(&self, port: u16) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(&self.name("upstream")),
            "spec": {
                "selector": { RUN_LABEL: self.run, ROLE_LABEL: Role::Origin },
                // Istio selects the protocol by the name of the port.
                "ports": [{ "name": "http", "port": port, "targetPort": port }],
            },
        })
    }

    /// The Deployment of an agent that runs on the node `node` and sees all processes there.
    pub(crate) fn sampler(&self, name: &str, node: &str, join: SocketAddr, ticket: &str) -> Value {
        let sampler = self.agent("sampler", name, join, SAMPLER_SIZE);
        let mut pod = self.pod(json!([sampler]), json!(self.agent_volumes(ticket)));
        pod["hostPID"] = json!(true);
        pod["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
        self.deployed(name, Role::Service, &pod)
    }

    /// The container of an agent that joins as `name`.
    fn agent(&self, container: &str, name: &str, join: SocketAddr, size: AgentSize) -> Value {
        let join = join.to_string();
        let command =
            json!(["weir", "agent", "--join", join, "--ticket", "/ticket/0000", "--name", name, "--sampled"]);
        let mut agent = self.container(container, &self.image, command, resources(size, size));
        mount(&mut agent, "ticket", "/ticket", true);
        agent
    }

    /// The volumes of a pod with an agent.
    fn agent_volumes(&self, ticket: &str) -> Vec<Value> {
        vec![chunks::volume(self, "ticket", ticket, 1), json!({ "name": "tmp", "emptyDir": {} })]
    }

    /// A Deployment of one pod.
    fn deployed(&self, name: &str, role: Role, pod: &Value) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.metadata(&self.name(name)),
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { PART_LABEL: name, RUN_LABEL: self.run } },
                "template": { "metadata": { "labels": self.pod_labels(name, role) }, "spec": pod },
            },
        })
    }

    /// The Deployment of a gateway or upstream.
    pub(crate) fn deployment(&self, spec: &PodSpec<'_>) -> Value {
        let size = AgentSize {
            cpus: spec.limits.cpus.unwrap_or_default(),
            memory_bytes: spec.limits.memory_bytes.unwrap_or_default(),
        };
        let requests = match spec.role {
            Role::Origin => AgentSize { cpus: size.cpus.min(ORIGIN_REQUEST), ..size },
            _ => size,
        };
        let mut gateway =
            self.container(spec.part, spec.image, json!(spec.command), resources(requests, size));
        let variables = spec.env.iter().map(|(name, value)| json!({ "name": name, "value": value }));
        if let Some(env) = gateway["env"].as_array_mut() {
            env.extend(variables);
        }
        let sampler = self.agent("sampler", spec.part, spec.join, SAMPLER_SIZE);
        let mut volumes = self.agent_volumes(spec.ticket);
        let mut init = Vec::new();
        if let Some(Mounted { data, chunks, root }) = spec.files {
            let root = root.display().to_string();
            let command = json!(["weir", "k8s", "unpack", "--from", "/files", "--to", root]);
            let mut unpack =
                self.container("files", &self.image, command, resources(SAMPLER_SIZE, SAMPLER_SIZE));
            mount(&mut unpack, "files", "/files", true);
            mount(&mut unpack, "work", &root, false);
            init.push(unpack);
            mount(&mut gateway, "work", &root, false);
            volumes.push(chunks::volume(self, "files", data, chunks));
            volumes.push(json!({ "name": "work", "emptyDir": {} }));
        }
        let mut pod = self.pod(json!([gateway, sampler]), json!(volumes));
        if !init.is_empty() {
            pod["initContainers"] = json!(init);
        }
        // The agent must see the processes of the other container, to sample them.
        pod["shareProcessNamespace"] = json!(true);
        // Prefers a node without agents and without other parts of a run.
        pod["affinity"] = json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": { "matchExpressions": [{ "key": ROLE_LABEL, "operator": "Exists" }] },
            },
        }] } });
        let mut deployment = self.deployed(spec.name, spec.role, &pod);
        deployment["spec"]["strategy"] = json!({ "type": "Recreate" });
        deployment
    }
}
