//! Reads from the status of a pod whether it runs, and if not, why.

use std::net::IpAddr;

use serde_json::Value;

/// State of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// The pod has not started. The text is the reason, such as `ContainerCreating`.
    Waiting(String),
    /// All containers of the pod run. The pod has this IP.
    Running(IpAddr),
    /// All containers of the pod exited with code 0.
    Succeeded,
    /// The pod cannot start, or one of its containers exited.
    Failed(PodFailure),
}

/// Why a pod does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFailure {
    /// The reason as Kubernetes names it: `OOMKilled`, `Evicted`, `Unschedulable`, `ErrImagePull`.
    pub reason: String,
    /// The container that failed; `None` if the failure concerns the whole pod.
    pub container: Option<String>,
    /// The message of Kubernetes; can be empty.
    pub message: String,
    /// Whether Kubernetes keeps trying to start the pod, as it does if no node has room or an image cannot be pulled.
    pub may_start: bool,
}

impl std::fmt::Display for PodFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(container) = &self.container {
            write!(f, "container {container}: ")?;
        }
        f.write_str(&self.reason)?;
        match self.message.trim() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

/// The reasons with which Kubernetes reports a waiting container that cannot start.
const CANNOT_START: [&str; 8] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
];

/// Reads the state of a pod from the object `pod`. If a container failed and Kubernetes restarted it, the pod counts as
/// failed.
pub fn pod_state(pod: &Value) -> PodState {
    let status = &pod["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let phase = status["phase"].as_str().unwrap_or_default();
    let containers = || {
        let of = |list: &str| status[list].as_array().cloned().unwrap_or_default();
        of("initContainerStatuses").into_iter().chain(of("containerStatuses"))
    };
    let failed = |reason: String, container: Option<String>, message: String, may_start: bool| {
        PodState::Failed(PodFailure { reason, container, message, may_start })
    };
    for container in containers() {
        let name = Some(text(&container["name"]));
        let ended = [&container["state"]["terminated"], &container["lastState"]["terminated"]];
        let ended = ended.into_iter().find(|state| state["exitCode"].as_i64().is_some_and(|code| code != 0));
        if let Some(ended) = ended {
            let code = ended["exitCode"].as_i64().unwrap_or_default();
            let reason = match ended["reason"].as_str() {
                None | Some("Error") => format!("exited with code {code}"),
                Some(reason) => format!("{reason} (exit code {code})"),
            };
            return failed(reason, name, text(&ended["message"]), false);
        }
        let waiting = &container["state"]["waiting"];
        if waiting["reason"].as_str().is_some_and(|reason| CANNOT_START.contains(&reason)) {
            return failed(text(&waiting["reason"]), name, text(&waiting["message"]), true);
        }
    }
    match phase {
        "Succeeded" => return PodState::Succeeded,
        "Failed" => {
            let reason = Some(text(&status["reason"])).filter(|reason| !reason.is_empty());
            return failed(reason.unwrap_or_else(|| "Failed".into()), None, text(&status["message"]), false);
        }
        _ => {}
    }
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    // An evicted pod still exists until its containers have exited, but counts as failed.
    let disrupted = |of: &&Value| of["type"] == "DisruptionTarget" && of["status"] == "True";
    if let Some(condition) = conditions.iter().find(disrupted) {
        return failed(text(&condition["reason"]), None, text(&condition["message"]), false);
    }
    let unscheduled = |of: &&Value| of["type"] == "PodScheduled" && of["status"] == "False";
    if let Some(condition) = conditions.iter().find(unscheduled) {
        return failed(text(&condition["reason"]), None, text(&condition["message"]), true);
    }
    let runs = |container: &Value| !container["state"]["running"].is_null();
    let declared = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let running =
        status["containerStatuses"].as_array().map_or(0, |all| all.iter().filter(|of| runs(of)).count());
    if let (true, Ok(address)) = (running == declared && declared > 0, text(&status["podIP"]).parse()) {
        return PodState::Running(address);
    }
    let waiting = containers().find_map(|of| of["state"]["waiting"]["reason"].as_str().map(str::to_owned));
    PodState::Waiting(waiting.unwrap_or_else(|| "not scheduled yet".into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: Value) -> Value {
        json!({ "spec": { "containers": [{ "name": "gateway" }, { "name": "sampler" }] }, "status": status })
    }

    fn words(status: Value) -> String {
        match pod_state(&pod(status)) {
            PodState::Failed(failure) => failure.to_string(),
            state => format!("{state:?}"),
        }
    }

    #[test]
    fn the_state_has_the_reason_why_a_pod_does_not_run() {
        let running = json!({ "running": {} });
        let two = |first: Value| {
            json!({ "phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [
                first, { "name": "sampler", "state": running },
            ] })
        };
        assert_eq!(words(two(json!({ "name": "gateway", "state": running }))), "Running(10.0.0.7)");
        let killed = json!({ "name": "gateway", "state": running, "restartCount": 1,
            "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } });
        assert_eq!(words(two(killed)), "container gateway: OOMKilled (exit code 137)");
        let failed =
            json!({ "name": "gateway", "state": { "terminated": { "exitCode": 2, "reason": "Error" } } });
        assert_eq!(words(two(failed)), "container gateway: exited with code 2");
        let image = json!({ "name": "gateway", "state": { "waiting": {
            "reason": "ErrImagePull", "message": "nginx:0: not found" } } });
        assert_eq!(words(two(image)), "container gateway: ErrImagePull: nginx:0: not found");
        let evicted =
            json!({ "phase": "Failed", "reason": "Evicted", "message": "The node was low on memory." });
        assert_eq!(words(evicted), "Evicted: The node was low on memory.");
        let unscheduled = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu." }] });
        assert_eq!(words(unscheduled), "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.");
        let starting = json!({ "phase": "Pending", "containerStatuses": [
            { "name": "gateway", "state": { "waiting": { "reason": "ContainerCreating" } } }] });
        assert_eq!(words(starting), "Waiting(\"ContainerCreating\")");
        assert_eq!(words(json!({ "phase": "Succeeded" })), "Succeeded");
        assert_eq!(words(json!({ "phase": "Pending" })), "Waiting(\"not scheduled yet\")");
    }
}
