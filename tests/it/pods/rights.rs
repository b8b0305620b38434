//! Rights of a run's coordinator in the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use weir_kube::{Cluster, KubeError, Object, Selected};
use weir_lab::pods::{GatewayRights, Results, Site, coordinator_manifests, grant_manifests};
use weir_lab::{Known, Overrides, Source};
use weir_results::Plane;
use weir_rig::Drivers;

use super::api::{Api, COORDINATOR, RBAC, RUN, api, manifest};
use super::routes::define_kinds;
use crate::program::the_host;

/// Verbs for objects that a run creates.
const OWN: &str = "create,delete,get,list,patch";

/// The rights for a run of the quickstart with these gateways.
pub fn rights_of(gateways: &[&str]) -> GatewayRights {
    rights_with(gateways, &[])
}

/// Like [`rights_of`], with settings of the scenario.
fn rights_with(gateways: &[&str], set: &[&str]) -> GatewayRights {
    let drivers = Drivers::load(&[]).unwrap();
    let known = Known {
        drivers: drivers.names().into_iter().map(str::to_owned).collect(),
        origins: Vec::new(),
        services: Vec::new(),
        needs: BTreeMap::new(),
        in_cluster: [("contour".to_owned(), vec![Plane::Data])].into(),
        cpus: 4,
        namespaces: || Err("there are none".into()),
    };
    let overrides = Overrides {
        set: ["generator.on=pods:1"].iter().chain(set).map(|word| (*word).to_owned()).collect(),
        gateways: gateways.iter().map(|name| (*name).to_owned()).collect(),
        ..Overrides::default()
    };
    let checked = weir_lab::read(&Source::find("quickstart").unwrap(), &overrides, &known).unwrap();
    GatewayRights::of(&checked.scenario, &drivers, "20261127-0230-abcd").unwrap()
}

/// Rules for the owner of `token` in a namespace, as `groups|resources|names|verbs`. Rules that apply to all users are
/// left out.
fn rules(api: &Api, token: &str, namespace: &str) -> BTreeSet<String> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": { "namespace": namespace },
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (code, said) = api.request_of(token, "POST", path, Some(&review));
    assert_eq!(code, 201, "{said}");
    let words = |list: &Value| {
        let words: BTreeSet<&str> =
            list.as_array().into_iter().flatten().map(|of| of.as_str().unwrap()).collect();
        words.into_iter().collect::<Vec<_>>().join(",")
    };
    let rules = said["status"]["resourceRules"].as_array().unwrap().iter();
    let of_everybody = ["authorization.k8s.io", "authentication.k8s.io"];
    rules
        .filter(|rule| of_everybody.iter().all(|group| rule["apiGroups"][0] != *group))
        .map(|rule| {
            let [groups, resources, names, verbs] =
                ["apiGroups", "resources", "resourceNames", "verbs"].map(|field| words(&rule[field]));
            format!("{groups}|{resources}|{names}|{verbs}")
        })
        .collect()
}

fn expected(rules: &[String]) -> BTreeSet<String> {
    rules.iter().cloned().collect()
}

/// Applies the manifests that start a coordinator.
fn start(api: &Api, site: &Site, gateways: &[&str], grants: bool) -> GatewayRights {
    let rights = rights_of(gateways);
    let space = api.get(&Object::global("v1", "Namespace", &site.namespace));
    let uid = site.is_own.then(|| space["metadata"]["uid"].as_str().unwrap());
    let granted = if grants { grant_manifests(site, &rights, uid) } else { Vec::new() };
    let manifests = [granted, coordinator_manifests(site, b"the run", &rights)].concat();
    api.admin().apply(&manifests, Duration::ZERO).unwrap();
    rights
}

#[test]
fn a_coordinator_has_exactly_the_documented_rights() {
    let (_host, api) = (the_host(), api());
    for space in ["rights-contour", "istio-system"] {
        api.namespace(space, json!({}));
    }
    let site = api.own("rights");
    start(api, &site, &["weir", "contour", "istio"], false);
    let token = api.admin().token(&site.namespace, &site.coordinator(), Duration::from_secs(600)).unwrap();
    let here = |is_own: bool| {
        let mut rules = vec![
            "|pods||get,list".to_owned(),
            "|events||get,list".into(),
            "|pods/log||get".into(),
            format!("|secrets||{OWN}"),
            format!("|configmaps,services||{OWN}"),
            format!("apps|deployments||{OWN}"),
            format!("batch|jobs||{OWN}"),
            format!("projectcontour.io|httpproxies||{OWN}"),
            format!("networking.istio.io|gateways,virtualservices||{OWN}"),
        ];
        if is_own {
            rules.push(format!("|namespaces|{}|delete,get", site.namespace));
        }
        expected(&rules)
    };
    assert_eq!(rules(api, &token, &site.namespace), here(true));
    for elsewhere in ["default", "istio-system", "projectcontour"] {
        assert_eq!(rules(api, &token, elsewhere), expected(&[]), "{elsewhere}");
    }

    // With --grant, the coordinator has rights on the named workloads, on pods in their namespaces, and on Secrets
    // where Istio reads certificates.
    start(api, &site, &["weir", "contour", "istio"], true);
    let metrics = "|nodes/metrics||get".to_owned();
    let granted = |names: &str, more: &[String]| {
        let rules = [
            metrics.clone(),
            format!("apps|daemonsets,deployments|{names}|get,patch"),
            "|pods||get,list".into(),
        ];
        expected(&[&rules[..], more].concat())
    };
    assert_eq!(rules(api, &token, "projectcontour"), granted("contour,envoy", &[]));
    let secrets = format!("|secrets||{OWN}");
    assert_eq!(rules(api, &token, "istio-system"), granted("istio-ingressgateway,istiod", &[secrets]));
    assert_eq!(rules(api, &token, "default"), expected(std::slice::from_ref(&metrics)));

    // Faults of a gateway need rights to delete and evict its pods and to read its Service.
    let rights = rights_with(&["contour"], &["faults=[{ at: 1s, gateway: data, do: evict }]"]);
    let written =
        |rights: &GatewayRights| serde_json::to_string(&grant_manifests(&site, rights, None)).unwrap();
    let [with, without] = [&rights, &rights_of(&["contour"])].map(written);
    for right in [
        r#"{"apiGroups":[""],"resources":["pods"],"verbs":["delete"]}"#,
        r#"{"apiGroups":[""],"resources":["pods/eviction"],"verbs":["create"]}"#,
        r#"{"apiGroups":[""],"resources":["services"],"verbs":["get"]}"#,
    ] {
        assert!(with.contains(right) && !without.contains(right), "{with}");
    }

    // Two gateways of one namespace share a Role.
    let two =
        "gateways=[{ name: one, driver: contour, set: { data: envoy-one } }, { name: two, driver: contour }]";
    let shared: Vec<Value> = grant_manifests(&site, &rights_with(&[], &[two]), None);
    let roles: Vec<&Value> = shared.iter().filter(|of| of["kind"] == "Role").collect();
    let [role] = roles[..] else { panic!("one Role: {shared:?}") };
    let names: Vec<&Value> =
        role["rules"].as_array().unwrap().iter().map(|rule| &rule["resourceNames"]).collect();
    assert_eq!(names, [&json!(["envoy-one", "contour"]), &Value::Null, &json!(["envoy", "contour"])]);

    // The token identifies the coordinator; agents have no token, and their account has no rights.
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, said) = api.request_of(&token, "POST", path, Some(&review));
    let user = format!("system:serviceaccount:{}:{}", site.namespace, site.coordinator());
    assert_eq!(said["status"]["userInfo"]["username"], user, "{said}");
    assert_eq!(rules(api, &api.account(&site.namespace, "default"), &site.namespace), expected(&[]));

    // In an existing namespace, the coordinator has no right to delete the namespace.
    let shared = api.shared("rights-shared", "rights-shared");
    start(api, &shared, &["weir", "contour", "istio"], false);
    let token =
        api.admin().token(&shared.namespace, &shared.coordinator(), Duration::from_secs(600)).unwrap();
    assert_eq!(rules(api, &token, &shared.namespace), here(false));
}

/// One manifest of each kind that a coordinator creates.
fn made_by_runs(namespace: &str) -> Vec<Value> {
    let pod = json!({
        "metadata": { "labels": { "app": "x" } },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "x", "image": "registry.test/x:1" }] },
    });
    let mut always = pod.clone();
    always["spec"]["restartPolicy"] = json!("Always");
    let proxy = json!({ "spec": { "virtualhost": { "fqdn": "x.test" } } });
    vec![
        manifest("v1", "Secret", namespace, "x", json!({ "data": {} })),
        manifest("v1", "ConfigMap", namespace, "x", json!({ "data": {} })),
        manifest("v1", "Service", namespace, "x", json!({ "spec": { "ports": [{ "port": 80 }] } })),
        manifest("batch/v1", "Job", namespace, "x", json!({ "spec": { "template": pod } })),
        manifest(
            "apps/v1",
            "Deployment",
            namespace,
            "x",
            json!({ "spec": { "selector": { "matchLabels": { "app": "x" } }, "template": always } }),
        ),
        manifest("projectcontour.io/v1", "HTTPProxy", namespace, "x", proxy),
    ]
}

#[track_caller]
fn assert_forbidden<T: std::fmt::Debug>(done: Result<T, KubeError>) {
    match done {
        Err(error) if error.is_forbidden() => {
            assert!(error.to_string().contains(&format!("User \"{COORDINATOR}\" cannot ")), "{error}");
        }
        done => panic!("{done:?}"),
    }
}

/// Creates, patches, reads and deletes an object.
fn use_wholly(cluster: &Cluster, manifest: &Value) {
    let object = Object::of(manifest).unwrap();
    cluster.apply(std::slice::from_ref(manifest), Duration::ZERO).unwrap();
    let change = json!({ "metadata": { "annotations": { "weir/test": "1" } } });
    cluster.patch(&object, &change).unwrap();
    assert_eq!(cluster.get(&object).unwrap().unwrap()["metadata"]["annotations"]["weir/test"], "1");
    let space = object.namespace.as_deref().unwrap();
    let found = cluster.list(&Selected::new(&object.api_version, &object.kind, space, "")).unwrap();
    assert!(found.iter().any(|of| of["metadata"]["name"] == "x"), "{found:?}");
    cluster.remove(&object, Duration::from_secs(30)).unwrap();
    assert_eq!(cluster.get(&object).unwrap(), None);
}

#[test]
fn a_coordinator_may_do_its_work_and_nothing_else() {
    let (_host, api) = (the_host(), api());
    define_kinds(api);
    for space in ["projectcontour", "rights-elsewhere"] {
        api.namespace(space, json!({}));
    }
    let site = api.own(RUN);
    assert_eq!(COORDINATOR, format!("system:serviceaccount:{}:{}", site.namespace, site.coordinator()));
    let lab = api.connect("coordinator");
    let own_space = Object::global("v1", "Namespace", &site.namespace);
    assert_forbidden(lab.get(&own_space));
    let rights = start(api, &site, &["weir", "contour"], false);

    for manifest in made_by_runs(&site.namespace) {
        use_wholly(&lab, &manifest);
    }
    for kind in ["Pod", "Event"] {
        lab.list(&Selected::new("v1", kind, &site.namespace, "")).unwrap();
    }
    let coordinator = Object::new("v1", "Pod", &site.namespace, &site.coordinator());
    assert!(lab.get(&coordinator).unwrap().is_some() && lab.get(&own_space).unwrap().is_some());

    // The coordinator cannot delete its pod, change its namespace or its rights, create pods or service accounts, or
    // access other namespaces.
    let change = json!({ "metadata": { "labels": { "weir/test": "1" } } });
    assert_forbidden(lab.remove(&coordinator, Duration::ZERO));
    assert_forbidden(lab.patch(&own_space, &change));
    let role = json!({ "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] });
    let pod = json!({ "spec": { "containers": [{ "name": "x", "image": "registry.test/x:1" }] } });
    for refused in [
        manifest(RBAC, "Role", &site.namespace, &site.coordinator(), role),
        manifest("v1", "Pod", &site.namespace, "x", pod),
        manifest("v1", "ServiceAccount", &site.namespace, "x", json!({})),
    ] {
        assert_forbidden(lab.apply(&[refused], Duration::ZERO));
    }
    for refused in made_by_runs("rights-elsewhere") {
        assert_forbidden(lab.apply(std::slice::from_ref(&refused), Duration::ZERO));
        assert_forbidden(lab.get(&Object::of(&refused).unwrap()));
    }
    assert_forbidden(lab.get(&Object::global("v1", "Namespace", "rights-elsewhere")));
    assert_forbidden(lab.list(&Selected::new("v1", "Pod", "rights-elsewhere", "")));
    for (kind, labels) in [("Node", ""), ("Namespace", ""), ("Secret", "weir/run"), ("Pod", "")] {
        assert_forbidden(lab.list(&Selected::everywhere("v1", kind, labels)));
    }

    // Without --grant, the coordinator has no rights on workloads of the gateway. With it, it has rights only on the
    // named workloads.
    let deployment = |name: &str| {
        let mut manifest = made_by_runs("projectcontour").swap_remove(4);
        manifest["metadata"]["name"] = json!(name);
        manifest
    };
    let (named, other) = (deployment("contour"), deployment("rights-other"));
    let mut daemons = deployment("envoy");
    daemons["kind"] = json!("DaemonSet");
    api.admin().apply(&[named.clone(), other.clone(), daemons.clone()], Duration::ZERO).unwrap();
    let [named, other, daemons] = [named, other, daemons].map(|of| Object::of(&of).unwrap());
    for object in [&named, &daemons, &other] {
        assert_forbidden(lab.get(object));
        assert_forbidden(lab.patch(object, &change));
    }
    let space = api.get(&own_space);
    let grants = grant_manifests(&site, &rights, space["metadata"]["uid"].as_str());
    api.admin().apply(&grants, Duration::ZERO).unwrap();
    for object in [&named, &daemons] {
        assert_eq!(lab.patch(object, &change).unwrap()["metadata"]["labels"]["weir/test"], "1");
        assert!(lab.get(object).unwrap().is_some());
        assert_forbidden(lab.remove(object, Duration::ZERO));
    }
    assert_forbidden(lab.get(&other));
    assert_forbidden(lab.patch(&other, &change));
    lab.list(&Selected::new("v1", "Pod", "projectcontour", "")).unwrap();
    assert_forbidden(lab.list(&Selected::new("v1", "Secret", "projectcontour", "")));
    assert_forbidden(lab.list(&Selected::everywhere("v1", "Node", "")));

    // The coordinator may delete its own namespace; the user who started the run removes the grants.
    let results = Results::new(api.admin().clone(), site.clone());
    let granted = || {
        let of =
            |kind: &str| api.admin().list(&Selected::everywhere(RBAC, kind, &site.selector())).unwrap().len();
        [of("Role"), of("RoleBinding"), of("ClusterRole"), of("ClusterRoleBinding")]
    };
    assert_eq!(granted(), [2, 2, 1, 1]);
    lab.remove(&own_space, Duration::ZERO).unwrap();
    results.clean().unwrap();
    assert_eq!(granted(), [0; 4]);
    assert_eq!(api.admin().get(&own_space).unwrap(), None);
}
