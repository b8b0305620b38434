//! The API accepts the manifests of a run, and Pod Security accepts its pods.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};
use weir_kube::{Object, Selected};
use weir_lab::pods::{
    AgentSize, Carrier, FileSet, PartSpec, PodHost, Pods, Site, joined, namespace_manifest,
};
use weir_results::Role;
use weir_rig::Limits;

use super::api::{Api, api, manifest, running};
use crate::program::{finish, text, the_host, until, weir};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const JOIN: SocketAddr = SocketAddr::new(HERE, 7400);

/// The documents that `weir k8s render quickstart` prints.
fn rendered(arguments: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let all = [&["k8s", "render", "quickstart", "--image", "registry.test/weir:0.1.0"], arguments].concat();
    let output = finish(weir(folder.path(), &all));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let documents = weir_document::documents(&stdout);
    documents.iter().map(|part| weir_document::read("printed", part.text).unwrap()).collect()
}

/// The number of manifests of each kind.
fn kinds(manifests: &[Value]) -> BTreeMap<&str, usize> {
    let mut kinds = BTreeMap::new();
    for manifest in manifests {
        *kinds.entry(manifest["kind"].as_str().unwrap()).or_default() += 1;
    }
    kinds
}

#[test]
fn the_api_accepts_every_manifest_that_weir_renders() {
    let (_host, api) = (the_host(), api());
    api.namespace("projectcontour", json!({}));
    let check = |arguments: &[&str], level: &str, expected: &[(&str, usize)]| {
        let manifests = rendered(arguments);
        assert_eq!(kinds(&manifests), expected.iter().copied().collect(), "{arguments:?}");
        // Applies the manifests in the printed order. Applying them twice checks that no field that weir sets is
        // immutable.
        for _ in 0..2 {
            api.admin().apply(&manifests, Duration::ZERO).unwrap();
        }
        for manifest in &manifests {
            api.get(&Object::of(manifest).unwrap());
        }
        let space = api.get(&Object::of(&manifests[0]).unwrap());
        assert_eq!(space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], level);
        let run = space["metadata"]["labels"]["weir/run"].as_str().unwrap();
        let pods = api.names("v1", "Pod", &format!("weir-{run}"), &format!("weir/run={run}"));
        assert_eq!(pods, [format!("weir-{run}-coordinator")]);
    };
    let plain =
        [("Namespace", 1), ("Pod", 1), ("Role", 1), ("RoleBinding", 1), ("Secret", 1), ("ServiceAccount", 1)];
    check(&[], "restricted", &plain);
    check(&["--samplers"], "privileged", &plain);
    let granted =
        [("ClusterRole", 1), ("ClusterRoleBinding", 1), ("Namespace", 1), ("Pod", 1), ("Secret", 1)];
    let of_contour = [("Role", 2), ("RoleBinding", 2), ("ServiceAccount", 1)];
    let all = ["--gateway", "contour", "--grant", "--samplers"];
    check(&all, "privileged", &[&granted[..], &of_contour].concat());
}

#[test]
fn an_existing_namespace_gets_all_manifests_except_the_namespace() {
    let (_host, api) = (the_host(), api());
    api.namespace("rendered-shared", json!({ "pod-security.kubernetes.io/enforce": "restricted" }));
    let manifests = rendered(&["--namespace", "rendered-shared"]);
    assert_eq!(kinds(&manifests).get("Namespace"), None);
    api.admin().apply(&manifests, Duration::ZERO).unwrap();
    let role = manifests.iter().find(|of| of["kind"] == "Role").unwrap();
    assert!(!role.to_string().contains("namespaces"), "{role}");
}

/// A run in its own namespace.
fn own_site(api: &Api, run: &str, has_samplers: bool) -> (Site, Pods) {
    let site = Site { has_samplers, ..api.own(run) };
    api.admin().apply(&[namespace_manifest(&site)], Duration::ZERO).unwrap();
    let pods = Pods::new(api.connect("admin"), site.clone(), HERE).unwrap();
    (site, pods)
}

/// Creates a pod from the pod template of an object, as a controller does. The run has only one object of this kind.
/// Returns the pod.
fn make_pod(api: &Api, site: &Site, api_version: &str, kind: &str) -> Result<Object, String> {
    let selected = Selected::new(api_version, kind, &site.namespace, &site.selector());
    let found = api.admin().list(&selected).unwrap();
    let [maker] = &found[..] else { panic!("one {kind}: {found:?}") };
    let template = &maker["spec"]["template"];
    let name = format!("{}-made", maker["metadata"]["name"].as_str().unwrap());
    let mut pod = manifest("v1", "Pod", &site.namespace, &name, json!({ "spec": template["spec"] }));
    pod["metadata"]["labels"] = template["metadata"]["labels"].clone();
    let made = api.admin().create(&pod).map_err(|error| error.to_string())?;
    Ok(Object::of(&made).unwrap())
}

/// Drops `carrier`, which must delete its objects. Asserts that no object of the run is left over.
fn assert_ended(api: &Api, site: &Site, carrier: Box<dyn Carrier>) {
    drop(carrier);
    for (api_version, kind) in
        [("batch/v1", "Job"), ("apps/v1", "Deployment"), ("v1", "Secret"), ("v1", "Pod")]
    {
        let left = api.names(api_version, kind, &site.namespace, &site.selector());
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn agents_gateways_and_upstreams_meet_the_restricted_level() {
    let (_host, api) = (the_host(), api());
    let (site, pods) = own_site(api, "restricted", false);
    let size = AgentSize { cpus: 0.5, memory_bytes: 256 << 20 };
    let agents = pods.agents(2, size, JOIN, "the ticket").unwrap();
    let pod = make_pod(api, &site, "batch/v1", "Job").unwrap();
    let spec = &api.get(&pod)["spec"];
    assert_eq!(spec["containers"][0]["resources"]["limits"], json!({ "cpu": "500m", "memory": "268435456" }));
    assert_eq!(spec["automountServiceAccountToken"], false);
    // If the pod is deleted, the cell fails with the message that the pod was deleted.
    api.set_status(&pod, &running("10.1.0.9", &["agent"]));
    until("weir sees the pod", || agents.address().is_some());
    assert_eq!(agents.address().unwrap().to_string(), "10.1.0.9");
    let image = agents.image("agent").unwrap();
    assert_eq!(
        (image.name.as_str(), image.id.as_str()),
        (site.image.as_str(), format!("sha256:{}", "ab".repeat(32)).as_str())
    );
    assert_eq!(agents.failure(), None);
    api.admin().remove(&pod, Duration::from_secs(30)).unwrap();
    let failure = agents.reason(Duration::from_secs(60)).unwrap();
    assert_eq!(failure.message, format!("pod {} was deleted", pod.name));
    assert_ended(api, &site, agents);

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir(root.join("gateway")).unwrap();
    std::fs::write(root.join("gateway/nginx.conf"), "events {}\n").unwrap();
    let command = ["nginx".to_owned(), "-c".into(), root.join("gateway/nginx.conf").display().to_string()];
    let env = [("LANG".to_owned(), "C".to_owned())];
    for role in [Role::Data, Role::Origin] {
        let gateway = root.join("gateway");
        let part = PartSpec {
            name: "Gate_Way.1",
            role,
            image: Some("registry.test/nginx:1"),
            command: &command,
            env: &env,
            limits: Limits { cpus: Some(0.5), memory_bytes: Some(128 << 20) },
            folders: vec![&gateway],
            root,
        };
        let carrier = pods.part(&part, JOIN, "the ticket").unwrap();
        let pod = make_pod(api, &site, "apps/v1", "Deployment").unwrap();
        let spec = &api.get(&pod)["spec"];
        let names = |list: &str| -> Vec<&str> {
            spec[list].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect()
        };
        assert_eq!(
            (names("initContainers"), names("containers")),
            (vec!["files"], vec!["gate-way-1", "sampler"])
        );
        let requested = if role == Role::Origin { "100m" } else { "500m" };
        assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], requested);
        // The files are in Secrets that the pod mounts.
        let secrets = api.names("v1", "Secret", &site.namespace, &site.selector());
        let mounted: Vec<&str> = spec["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|volume| volume["projected"]["sources"][0]["secret"]["name"].as_str())
            .collect();
        assert_eq!((secrets.len(), mounted.len()), (2, 2), "{secrets:?} {mounted:?}");
        assert!(
            mounted.iter().all(|name| secrets.iter().any(|secret| secret == name)),
            "{secrets:?} {mounted:?}"
        );
        let files = secrets.iter().find(|name| name.contains("-files-")).unwrap();
        let secret = api.get(&Object::new("v1", "Secret", &site.namespace, files));
        let packed = joined(&[secret]).unwrap().unwrap();
        assert_eq!(packed, FileSet::below(&gateway).unwrap().packed());
        api.admin().remove(&pod, Duration::from_secs(30)).unwrap();
        assert_ended(api, &site, carrier);
    }
}

#[test]
fn a_sampler_of_a_node_needs_the_privileged_level() {
    let (_host, api) = (the_host(), api());
    for (run, has_samplers) in [("sampled", true), ("unsampled", false)] {
        let (site, pods) = own_site(api, run, has_samplers);
        assert_eq!(pods.has_samplers(), has_samplers);
        let carrier = pods.sampler("envoy", "node-1", JOIN, "the ticket").unwrap();
        match (make_pod(api, &site, "apps/v1", "Deployment"), has_samplers) {
            (Ok(pod), true) => api.admin().remove(&pod, Duration::from_secs(30)).unwrap(),
            (Err(why), false) => assert!(why.contains("hostPID=true"), "{why}"),
            (made, _) => panic!("{made:?}"),
        }
        assert_ended(api, &site, carrier);
    }
}

#[test]
fn a_rejected_pod_ends_its_cell_with_the_reason() {
    let (_host, api) = (the_host(), api());
    let (site, pods) = own_site(api, "refused-pod", false);
    let carrier = pods.agents(1, AgentSize::default(), JOIN, "the ticket").unwrap();
    let jobs = api.names("batch/v1", "Job", &site.namespace, &site.selector());
    let why =
        "pods \"x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3";
    let event = json!({
        "involvedObject": { "kind": "Job", "name": jobs[0], "namespace": site.namespace },
        "type": "Warning", "reason": "FailedCreate", "message": why,
    });
    api.admin().create(&manifest("v1", "Event", &site.namespace, "refused", event)).unwrap();
    let failure = carrier.reason(Duration::from_secs(60)).unwrap();
    assert!(failure.message.starts_with("cannot create pods of agents-1: pods "), "{failure}");
    assert!(failure.message.ends_with(why), "{failure}");
    assert!(failure.remedy.contains("raise the quota"), "{}", failure.remedy);
    assert_ended(api, &site, carrier);
}
