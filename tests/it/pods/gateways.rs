//! Gateways that already run in the cluster: limits, new pods, restoration.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use weir_kube::Object;
use weir_lab::pods::{ClusterGateways, PlacedPods, PodError, Results, Site};
use weir_results::FaultAction;
use weir_rig::{DataService, Limits, Workload, WorkloadKind};

use super::api::{Api, VIEWER, api, manifest, rule, running};
use crate::program::{the_host, until};

/// The container of the gateway.
const CONTAINER: &str = "proxy";

/// weir's timeout for a gateway that never becomes ready. It is longer than the test's controller needs.
const SHORT: Duration = Duration::from_secs(6);

const LIMITS: Limits = Limits { cpus: Some(0.5), memory_bytes: Some(256 << 20) };

/// A gateway as a user has installed it.
struct Installed<'a> {
    api: &'a Api,
    workload: Workload,
    object: Object,
    /// The original pod template.
    template: Value,
}

/// Message of a container that cannot start.
const PULL_FAILED: &str = "Back-off pulling image \"registry.test/proxy:1\"";

impl<'a> Installed<'a> {
    fn new(api: &'a Api, kind: WorkloadKind, namespace: &str, name: &str, resources: Value) -> Self {
        let labels = json!({ "app": name });
        let spec = json!({
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [
                    { "name": "beside", "image": "registry.test/beside:1", "resources": { "limits": { "cpu": "2" } } },
                    { "name": CONTAINER, "image": "registry.test/proxy:1", "resources": resources },
                ] },
            },
        });
        let made = manifest("apps/v1", kind.name(), namespace, name, json!({ "spec": spec }));
        let made = api.admin().create(&made).unwrap();
        let workload =
            Workload { kind, namespace: namespace.into(), name: name.into(), container: CONTAINER.into() };
        let object = Object::of(&made).unwrap();
        Self { api, workload, object, template: made["spec"]["template"].clone() }
    }

    fn found(&self) -> Value {
        self.api.get(&self.object)
    }

    /// The resources of the gateway's container.
    fn resources(&self) -> Value {
        self.found()["spec"]["template"]["spec"]["containers"][1]["resources"].clone()
    }

    #[track_caller]
    fn assert_restored(&self) {
        assert_eq!(self.found()["spec"]["template"].to_string(), self.template.to_string());
    }

    /// Creates a running pod of the current template.
    fn make_pod(&self, name: &str, address: &str) -> Object {
        let found = self.found();
        let template = &found["spec"]["template"];
        let mut spec = template["spec"].clone();
        spec["nodeName"] = json!("node-1");
        let mut pod = manifest("v1", "Pod", &self.workload.namespace, name, json!({ "spec": spec }));
        for field in ["labels", "annotations"] {
            pod["metadata"][field] = template["metadata"][field].clone();
        }
        let made = self.api.admin().create(&pod).unwrap();
        let pod = Object::of(&made).unwrap();
        self.api.set_status(&pod, &running(address, &["beside", CONTAINER]));
        pod
    }

    /// Sets three counts in the status: all pods, pods of the current template, and available pods.
    fn roll_out(&self, all: u32, updated: u32, available: u32) {
        let generation = &self.found()["metadata"]["generation"];
        let status = match self.workload.kind {
            WorkloadKind::Deployment => json!({
                "observedGeneration": generation, "replicas": all, "updatedReplicas": updated,
                "readyReplicas": available, "availableReplicas": available,
            }),
            WorkloadKind::DaemonSet => json!({
                "observedGeneration": generation, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
                "numberMisscheduled": 0, "updatedNumberScheduled": updated, "numberReady": available,
                "numberAvailable": available,
            }),
        };
        self.api.set_status(&self.object, &status);
    }

    /// Restarts the gateway. Calls `controller` as soon as the object of the gateway has changed.
    fn restart(
        &self,
        gateways: &ClusterGateways,
        limits: Limits,
        controller: impl FnOnce(),
    ) -> Result<PlacedPods, PodError> {
        let before = self.found()["metadata"]["generation"].clone();
        thread::scope(|scope| {
            let restarted = scope.spawn(|| gateways.restart("data", &self.workload, limits));
            until("a change of the gateway", || {
                self.found()["metadata"]["generation"] != before || restarted.is_finished()
            });
            if !restarted.is_finished() {
                controller();
            }
            restarted.join().unwrap()
        })
    }

    /// Restarts the gateway with one new pod.
    fn restart_well(&self, gateways: &ClusterGateways, limits: Limits, pod: &str) -> PlacedPods {
        let restarted = self.restart(gateways, limits, || {
            self.make_pod(pod, "10.1.0.7");
            self.roll_out(1, 1, 1);
        });
        restarted.unwrap()
    }
}

fn gateways(api: &Api, site: &Site) -> ClusterGateways {
    ClusterGateways::new(Arc::new(api.connect("admin")), site.clone())
}

/// Names of the ConfigMaps in which a run records what it changed.
fn records(api: &Api, site: &Site) -> Vec<String> {
    api.names("v1", "ConfigMap", &site.namespace, &site.selector())
}

#[test]
fn gateways_get_limits_and_new_pods_and_are_restored() {
    let (_host, api) = (the_host(), api());
    api.namespace("gateways", json!({}));
    let site = api.own("gateways");
    let lab = gateways(api, &site);
    let requests = json!({ "cpu": "10m", "memory": "33554432" });
    let wanted = json!({ "cpu": "500m", "memory": "268435456" });
    let cases = [
        (WorkloadKind::Deployment, "only-limits", json!({ "limits": { "cpu": "2", "memory": "1Gi" } })),
        (
            WorkloadKind::DaemonSet,
            "only-requests",
            json!({ "requests": { "cpu": "300m", "memory": "64Mi" } }),
        ),
        (WorkloadKind::Deployment, "none", json!({})),
        (
            WorkloadKind::DaemonSet,
            "further",
            json!({ "limits": { "ephemeral-storage": "1Gi" }, "requests": { "ephemeral-storage": "1Mi", "cpu": "1" } }),
        ),
    ];
    let mut all = Vec::new();
    for (kind, name, resources) in cases {
        let gateway = Installed::new(api, kind, "gateways", name, resources.clone());
        let old = gateway.make_pod(&format!("{name}-old"), "10.1.0.6");
        // Kubernetes keeps evicted pods.
        let evicted = gateway.make_pod(&format!("{name}-evicted"), "10.1.0.5");
        api.set_status(&evicted, &json!({ "phase": "Failed", "reason": "Evicted" }));
        let placed = gateway.restart(&lab, LIMITS, || {
            let now = gateway.resources();
            for (list, expected) in [("limits", &wanted), ("requests", &requests)] {
                let mut expected = expected.clone();
                if let Some(further) = resources[list].get("ephemeral-storage") {
                    expected["ephemeral-storage"] = further.clone();
                }
                assert_eq!(now[list], expected, "{name}");
            }
            let template = gateway.found()["spec"]["template"].clone();
            assert_eq!(
                template["spec"]["containers"][0], gateway.template["spec"]["containers"][0],
                "{name}"
            );
            assert!(template["metadata"]["annotations"]["weir/restarted-at"].is_string(), "{template}");
            assert_eq!(records(api, &site).len(), 1, "the old state must be recorded before the change");
            // An old pod may take minutes to terminate, but gets no load.
            api.admin().remove(&old, Duration::ZERO).unwrap();
            gateway.make_pod(&format!("{name}-new"), "10.1.0.7");
            gateway.roll_out(1, 1, 1);
        });
        let PlacedPods { pods, image, limits, limits_applied, notes } = placed.unwrap();
        let [pod] = &pods[..] else { panic!("{pods:?}") };
        assert_eq!((pod.name.as_str(), pod.node.as_str()), (format!("{name}-new").as_str(), "node-1"));
        assert_eq!(
            (pod.address.to_string(), pod.node_address.to_string()),
            ("10.1.0.7".into(), "10.0.0.1".into())
        );
        assert_eq!((pod.container_id.as_str(), limits, limits_applied), (CONTAINER, LIMITS, true));
        assert_eq!(image.unwrap().id, format!("sha256:{}", "ab".repeat(32)));
        assert!(notes.is_empty(), "{notes:?}");
        all.push(gateway);
    }
    // The next cell sets other limits. At the end, weir still restores the limits from before the run.
    let last = &all[3];
    let marked = last.found()["spec"]["template"]["metadata"]["annotations"].clone();
    api.admin().remove(&Object::new("v1", "Pod", "gateways", "further-new"), Duration::ZERO).unwrap();
    let other = Limits { cpus: Some(2.0), memory_bytes: None };
    let placed = last.restart_well(&lab, other, "further-newer");
    assert_eq!(last.resources()["limits"]["cpu"], "2");
    assert_eq!((placed.pods[0].name.as_str(), placed.limits.cpus), ("further-newer", Some(2.0)));
    assert_ne!(last.found()["spec"]["template"]["metadata"]["annotations"], marked);

    lab.restore().unwrap();
    all.iter().for_each(Installed::assert_restored);
    assert!(records(api, &site).is_empty());
    // The second call restores nothing, and the next change is recorded again.
    let generation = last.found()["metadata"]["generation"].clone();
    lab.restore().unwrap();
    assert_eq!(last.found()["metadata"]["generation"], generation);
    api.admin().remove(&Object::new("v1", "Pod", "gateways", "further-newer"), Duration::ZERO).unwrap();
    last.restart_well(&lab, LIMITS, "further-newest");
    assert_eq!(records(api, &site).len(), 1);
    lab.restore().unwrap();
    last.assert_restored();
}

#[test]
fn a_gateway_is_restored_after_its_coordinator_is_lost() {
    let (_host, api) = (the_host(), api());
    api.namespace("gateways-lost", json!({}));
    let site = api.shared("gateways-lost-run", "lost");
    let resources = json!({ "limits": { "cpu": "3" }, "requests": { "cpu": "1" } });
    let gateway = Installed::new(api, WorkloadKind::Deployment, "gateways-lost", "lost", resources);
    gateway.restart_well(&gateways(api, &site), LIMITS, "lost-1");
    // A second coordinator finds the limits that weir set. It must keep the record of the original limits.
    let pod = Object::new("v1", "Pod", "gateways-lost", "lost-1");
    api.admin().remove(&pod, Duration::ZERO).unwrap();
    let other = Installed::new(api, WorkloadKind::DaemonSet, "gateways-lost", "other", json!({}));
    let successor = gateways(api, &site);
    other.restart_well(&successor, LIMITS, "other-1");
    let less = Limits { cpus: Some(0.25), ..LIMITS };
    gateway.restart_well(&successor, less, "lost-2");
    drop(successor);
    assert_eq!(gateway.resources()["limits"]["cpu"], "250m");

    let results = Results::new(Arc::new(api.connect("admin")), site.clone());
    results.clean().unwrap();
    gateway.assert_restored();
    other.assert_restored();
    assert!(records(api, &site).is_empty());
    results.clean().unwrap();
}

#[test]
fn a_removed_gateway_does_not_prevent_the_restoration_of_others() {
    let (_host, api) = (the_host(), api());
    api.namespace("gateways-removed", json!({}));
    let site = api.shared("gateways-removed-run", "removed");
    let lab = gateways(api, &site);
    let [removed, kept] = ["removed", "kept"].map(|name| {
        let resources = json!({ "limits": { "memory": "1Gi" } });
        let gateway = Installed::new(api, WorkloadKind::Deployment, "gateways-removed", name, resources);
        gateway.restart_well(&lab, LIMITS, &format!("{name}-1"));
        gateway
    });
    api.admin().remove(&removed.object, Duration::from_secs(30)).unwrap();
    lab.restore().unwrap();
    kept.assert_restored();
    assert!(records(api, &site).is_empty());
    assert_eq!(api.admin().get(&removed.object).unwrap(), None);
    // The next cell reports what is missing.
    let error = lab.restart("data", &removed.workload, LIMITS).unwrap_err();
    assert_eq!(error.message, "data: namespace gateways-removed has no Deployment removed");
    assert!(
        error.cause == "binary-missing" && error.remedy.contains("--set 'gateways.NAME.set="),
        "{error:?}"
    );
}

#[test]
fn a_gateway_that_cannot_be_restored_stays_recorded_and_others_are_restored() {
    let (_host, api) = (the_host(), api());
    api.namespace("gateways-stuck", json!({}));
    let site = api.shared("gateways-stuck-run", "stuck");
    let lab = gateways(api, &site);
    let [stuck, free] = ["a-stuck", "b-free"].map(|name| {
        let gateway = Installed::new(api, WorkloadKind::Deployment, "gateways-stuck", name, json!({}));
        gateway.restart_well(&lab, LIMITS, &format!("{name}-1"));
        gateway
    });
    let viewer = json!({ "kind": "User", "name": VIEWER, "apiGroup": "rbac.authorization.k8s.io" });
    let mut free_only = rule("apps", &["deployments"], &["get", "patch"]);
    free_only["resourceNames"] = json!(["b-free"]);
    api.grant("stuck", Some("gateways-stuck"), viewer.clone(), &[free_only]);
    let record = rule("", &["configmaps"], &["get", "list", "create", "patch", "delete"]);
    api.grant("stuck", Some("gateways-stuck-run"), viewer, &[record]);
    let lacking = ClusterGateways::new(Arc::new(api.connect("viewer")), site.clone());
    let error = lacking.restore().unwrap_err();
    assert!(error.message.contains("cannot patch Deployment gateways-stuck/a-stuck: "), "{error}");
    assert!(error.remedy.starts_with("grant the permission in the message"), "{}", error.remedy);
    free.assert_restored();
    assert_eq!((stuck.resources()["limits"]["cpu"].as_str(), records(api, &site).len()), (Some("500m"), 1));
    lab.restore().unwrap();
    stuck.assert_restored();
    assert!(records(api, &site).is_empty());
}

#[test]
fn a_gateway_that_never_becomes_ready_fails_with_the_reason_and_is_restored() {
    let (_host, api) = (the_host(), api());
    api.namespace("gateways-unready", json!({}));
    let site = api.shared("gateways-unready-run", "unready");
    let lab = gateways(api, &site).waiting(SHORT);
    let check =
        |kind: WorkloadKind, name: &str, controller: &(dyn Fn(&Installed<'_>) + Sync), expected: &str| {
            let gateway = Installed::new(api, kind, "gateways-unready", name, json!({}));
            let error = gateway.restart(&lab, LIMITS, || controller(&gateway)).unwrap_err();
            assert_eq!(error.cause, "never-ready", "{error}");
            let begin =
                format!("data: rollout of {} gateways-unready/{name} not complete after ", kind.name());
            assert!(error.message.starts_with(&begin) && error.message.ends_with(expected), "{error}");
            gateway
        };
    let no_image = |gateway: &Installed<'_>| {
        let pod = gateway.make_pod("no-image-1", "10.1.0.7");
        let mut status = running("10.1.0.7", &["beside", CONTAINER]);
        let waiting = json!({ "waiting": { "reason": "ImagePullBackOff", "message": PULL_FAILED } });
        status["containerStatuses"][1]["state"] = waiting;
        api.set_status(&pod, &status);
        gateway.roll_out(1, 1, 0);
    };
    // One pod is new and one is available, but the available pod is the old one.
    let surge = |gateway: &Installed<'_>| {
        let name = &gateway.workload.name;
        let old = gateway.make_pod(&format!("{name}-1"), "10.1.0.6");
        let marks = json!({ "metadata": { "annotations": { "weir/restarted-at": "before" } } });
        api.admin().patch(&old, &marks).unwrap();
        gateway.make_pod(&format!("{name}-2"), "10.1.0.7");
        gateway.roll_out(2, 1, 1);
    };
    let (deployment, daemons) = (WorkloadKind::Deployment, WorkloadKind::DaemonSet);
    let why = format!("pod no-image-1: container {CONTAINER}: ImagePullBackOff: {PULL_FAILED}");
    let all: Vec<Installed<'_>> = thread::scope(|scope| {
        // Run concurrently, because each check waits for the full timeout.
        let checks = [
            scope
                .spawn(|| check(deployment, "unseen", &|_| {}, "its controller has not observed the change")),
            scope.spawn(|| {
                check(
                    deployment,
                    "no-pods",
                    &|of| of.roll_out(0, 0, 0),
                    "0 of 1 pods are updated, 0 are available",
                )
            }),
            scope.spawn(|| check(daemons, "no-image", &no_image, &why)),
            scope.spawn(|| check(deployment, "surging", &surge, "1 old pods still exist")),
            scope.spawn(|| check(daemons, "surging-set", &surge, "old pods still run: surging-set-1")),
        ];
        checks.into_iter().map(|check| check.join().unwrap()).collect()
    });
    lab.restore().unwrap();
    all.iter().for_each(Installed::assert_restored);

    // A user removes the gateway while weir waits.
    let gateway = Installed::new(api, WorkloadKind::Deployment, "gateways-unready", "removed", json!({}));
    let removed = || api.admin().remove(&gateway.object, Duration::from_secs(30)).unwrap();
    let error = gateway.restart(&lab, LIMITS, removed).unwrap_err();
    assert_eq!(error.message, "data: Deployment gateways-unready/removed was deleted");
    lab.restore().unwrap();
}

#[test]
fn a_gateway_that_weir_may_not_change_is_measured_unchanged() {
    let (_host, api) = (the_host(), api());
    api.namespace("gateways-viewed", json!({}));
    let site = api.shared("gateways-viewed-run", "viewed");
    let resources = json!({ "limits": { "cpu": "500m", "memory": "256Mi" } });
    let gateway = Installed::new(api, WorkloadKind::Deployment, "gateways-viewed", "viewed", resources);
    let viewer = json!({ "kind": "User", "name": VIEWER, "apiGroup": "rbac.authorization.k8s.io" });
    let record = rule("", &["configmaps"], &["get", "list", "create", "patch", "delete"]);
    api.grant("viewed", Some("gateways-viewed-run"), viewer.clone(), &[record]);
    let lab = ClusterGateways::new(Arc::new(api.connect("viewer")), site.clone()).waiting(SHORT);
    let error = lab.restart("data", &gateway.workload, LIMITS).unwrap_err();
    assert!(error.message.contains("cannot get resource \"deployments\""), "{error}");
    assert!(
        error.remedy.starts_with("grant weir access to the gateway in namespace gateways-viewed"),
        "{error:?}"
    );

    let rules = [rule("apps", &["deployments"], &["get"]), rule("", &["pods"], &["get", "list"])];
    api.grant("viewed", Some("gateways-viewed"), viewer, &rules);
    gateway.make_pod("viewed-1", "10.1.0.7");
    gateway.roll_out(1, 1, 1);
    for (limits, applied) in [(LIMITS, true), (Limits { cpus: Some(1.0), ..LIMITS }, false)] {
        let placed = lab.restart("data", &gateway.workload, limits).unwrap();
        assert_eq!((placed.limits, placed.limits_applied, placed.pods.len()), (LIMITS, applied, 1));
        let [note] = &placed.notes[..] else { panic!("{:?}", placed.notes) };
        assert!(note.starts_with("no permission to change Deployment gateways-viewed/viewed: "), "{note}");
    }
    // Nothing was changed, so the missing permission does not prevent the restoration.
    lab.restore().unwrap();
    gateway.assert_restored();
    assert!(records(api, &site).is_empty());
}

#[test]
fn a_missing_container_is_named() {
    let (_host, api) = (the_host(), api());
    api.namespace("gateways-other", json!({}));
    let site = api.shared("gateways-other-run", "other");
    let gateway = Installed::new(api, WorkloadKind::Deployment, "gateways-other", "other", json!({}));
    let lab = gateways(api, &site);
    let workload = Workload { container: "envoy".into(), ..gateway.workload.clone() };
    let error = lab.restart("data", &workload, LIMITS).unwrap_err();
    assert_eq!(
        error.message,
        "data: Deployment gateways-other/other has no container `envoy`; its containers are beside, proxy"
    );
    lab.restore().unwrap();
    gateway.assert_restored();
    assert!(records(api, &site).is_empty());
}

#[test]
fn faults_kill_or_evict_one_pod_or_replace_all() {
    let (_host, api) = (the_host(), api());
    api.namespace("faults", json!({}));
    let site = api.own("faults");
    let lab = gateways(api, &site);
    let gateway = Installed::new(api, WorkloadKind::Deployment, "faults", "data", json!({}));
    let disturb = |action| lab.disturb("data", &gateway.workload, action);
    // Without a kubelet, a deleted pod stays in its grace period.
    let grace_s = |pod: &str| {
        api.get(&Object::new("v1", "Pod", "faults", pod))["metadata"]["deletionGracePeriodSeconds"].clone()
    };
    let error = disturb(FaultAction::Kill).unwrap_err();
    assert_eq!(error.message, "data: no pod is running, so weir cannot kill or evict one");

    gateway.make_pod("one", "10.1.0.6");
    gateway.make_pod("two", "10.1.0.7");
    disturb(FaultAction::Kill).unwrap();
    assert_eq!((grace_s("one"), grace_s("two")), (json!(1), Value::Null));

    // A disruption budget rejects the eviction, and no pod ends.
    let budget = json!({ "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "data" } } } });
    let budget =
        api.admin().create(&manifest("policy/v1", "PodDisruptionBudget", "faults", "all", budget)).unwrap();
    let error = disturb(FaultAction::Evict).unwrap_err();
    assert!(error.message.contains("evict pod faults/two"), "{}", error.message);
    assert!(error.remedy.contains("PodDisruptionBudget"), "{}", error.remedy);
    assert_eq!(grace_s("two"), Value::Null);
    api.admin().remove(&Object::of(&budget).unwrap(), SHORT).unwrap();
    disturb(FaultAction::Evict).unwrap();
    assert!(grace_s("two").as_u64().is_some_and(|seconds| seconds > 1), "{}", grace_s("two"));

    let before = gateway.found();
    disturb(FaultAction::Rollout).unwrap();
    let found = gateway.found();
    assert_ne!(found["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(found["spec"]["template"]["spec"], before["spec"]["template"]["spec"]);
}

#[test]
fn the_service_of_a_data_plane_is_found_by_its_name() {
    let (_host, api) = (the_host(), api());
    api.namespace("service", json!({}));
    let lab = gateways(api, &api.own("service"));
    let spec = json!({ "spec": { "ports": [{ "port": 80 }] } });
    let made = api.admin().create(&manifest("v1", "Service", "service", "envoy", spec)).unwrap();
    let of = |name: &str| DataService { namespace: "service".into(), name: name.into(), port: 80 };
    let address = lab.service(&of("envoy")).unwrap().to_string();
    assert_eq!(address, made["spec"]["clusterIP"].as_str().unwrap());
    let error = lab.service(&of("other")).unwrap_err();
    assert_eq!(error.message, "the Service service/other does not exist, or has no cluster IP");
}
