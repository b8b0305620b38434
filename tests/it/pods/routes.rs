//! Routes of Contour, Istio and Envoy Gateway: applied, accepted, reduced, and removed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use weir_kube::{Object, Selected};
use weir_lab::pods::{ClusterGateways, PodError, Site};
use weir_rig::{Binary, Binding, ClusterRoutes, Drivers, PodBinding, TlsBinding};

use super::api::{Api, api, path};
use crate::program::{the_host, until};

/// weir's timeout for routes that are never accepted. It is longer than the test's control plane needs.
const SHORT: Duration = Duration::from_secs(6);

/// Defines the kinds of Contour, Istio and Envoy Gateway, without their validation.
pub fn define_kinds(api: &Api) {
    static DEFINED: Once = Once::new();
    let definition = |group: &str, version: &str, plural: &str, kind: &str| {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{group}"),
                // Kubernetes requires this annotation for protected groups, such as `*.k8s.io`.
                "annotations": { "api-approved.kubernetes.io": "unapproved, for a test" },
            },
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": { "kind": kind, "plural": plural },
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} },
                }],
            },
        })
    };
    DEFINED.call_once(|| {
        let kinds = [
            ("projectcontour.io", "v1", "httpproxies", "HTTPProxy"),
            ("networking.istio.io", "v1", "gateways", "Gateway"),
            ("networking.istio.io", "v1", "virtualservices", "VirtualService"),
            ("gateway.networking.k8s.io", "v1", "gateways", "Gateway"),
            ("gateway.networking.k8s.io", "v1", "listenersets", "ListenerSet"),
            ("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute"),
            ("gateway.envoyproxy.io", "v1alpha1", "envoyproxies", "EnvoyProxy"),
        ];
        let definitions =
            kinds.map(|(group, version, plural, kind)| definition(group, version, plural, kind));
        api.admin().apply(&definitions, Duration::ZERO).unwrap();
        for (group, version, plural, kind) in kinds {
            until(&format!("{plural} of {group} are served"), || {
                api.admin().list(&Selected::everywhere(&format!("{group}/{version}"), kind, "")).is_ok()
            });
        }
    });
}

/// Routes that a driver renders for the first `hosts` hosts of a topology with two paths.
fn routes(driver: &str, site: &Site, hosts: usize, folder: &Path, tls: bool) -> ClusterRoutes {
    let drivers = Drivers::load(&[]).unwrap();
    let driver = drivers.driver(driver).unwrap();
    let anywhere = SocketAddr::from(([0, 0, 0, 0], 8080));
    let pods = PodBinding {
        namespace: site.namespace.clone(),
        run: site.run.clone(),
        service: "upstream".into(),
        port: 8080,
        resources: json!({ "limits": { "cpu": "500m" } }),
    };
    let binding = Binding {
        listen: anywhere,
        admin: anywhere,
        addresses: BTreeMap::new(),
        origins: vec![anywhere],
        hosts: (1..=hosts).map(|number| format!("d{number}.gateway.test")).collect(),
        paths: vec!["/ping".into(), "/get/1".into()],
        rewrite: None,
        tls: tls.then_some(TlsBinding { client_certificate: false, certificate_each: true }),
        certificates: None,
        tokens: Vec::new(),
        token_cache: Duration::ZERO,
        workers: 1,
        limits: BTreeMap::new(),
        set: BTreeMap::new(),
        binary: Binary::default(),
        config: None,
        changes: false,
        services: BTreeMap::new(),
        secure_origin: None,
        pods: Some(pods),
    };
    let rendered = driver.render(&binding, folder).unwrap();
    driver.cluster_routes(&binding, rendered.credentials.certificates.as_ref(), folder).unwrap()
}

/// The control plane of Contour.
struct Contour<'a> {
    api: &'a Api,
    site: &'a Site,
}

impl Contour<'_> {
    fn proxies(&self) -> Vec<Value> {
        let Site { namespace, .. } = self.site;
        let selected = Selected::new("projectcontour.io/v1", "HTTPProxy", namespace, &self.site.selector());
        self.api.admin().list(&selected).unwrap()
    }

    /// Sets the condition `Valid` of every route: false for the host `invalid`, else true. Returns their number.
    fn look(&self, invalid: &str) -> usize {
        let proxies = self.proxies();
        for proxy in &proxies {
            let host = proxy["spec"]["virtualhost"]["fqdn"].as_str().unwrap();
            let generation = &proxy["metadata"]["generation"];
            let condition = match host == invalid {
                false => json!({ "type": "Valid", "status": "True", "observedGeneration": generation }),
                true => json!({
                    "type": "Valid", "status": "False", "observedGeneration": generation,
                    "message": "At least one error present, see Errors for details",
                    "errors": [{ "message": format!("fqdn {host} is used elsewhere") }],
                }),
            };
            let object = Object::of(proxy).unwrap();
            let status = json!({ "status": { "conditions": [condition] } });
            let (code, said) = self.api.request("PATCH", &format!("{}/status", path(&object)), Some(&status));
            // The proxy may have been removed.
            assert!(code == 200 || code == 404, "{said}");
        }
        proxies.len()
    }

    /// Applies routes, and sets their conditions until weir has finished.
    fn put(&self, lab: &ClusterGateways, routes: &ClusterRoutes, invalid: &str) -> Result<(), PodError> {
        let accepted = routes.accepted.as_ref();
        thread::scope(|scope| {
            let put = scope.spawn(|| lab.put_routes("contour", &routes.objects, accepted));
            while !put.is_finished() {
                self.look(invalid);
                thread::sleep(Duration::from_millis(50));
            }
            put.join().unwrap()
        })
    }
}

fn hosts(proxies: &[Value]) -> Vec<&str> {
    let mut hosts: Vec<&str> =
        proxies.iter().map(|proxy| proxy["spec"]["virtualhost"]["fqdn"].as_str().unwrap()).collect();
    hosts.sort_unstable();
    hosts
}

fn secrets(api: &Api, site: &Site) -> Vec<String> {
    api.names("v1", "Secret", &site.namespace, &site.selector())
}

#[test]
fn routes_of_contour_follow_the_topology_and_are_removed_with_the_run() {
    let (_host, api) = (the_host(), api());
    define_kinds(api);
    let site = api.own("contour");
    let lab = ClusterGateways::new(Arc::new(api.connect("admin")), site.clone());
    let contour = Contour { api, site: &site };
    let folder = tempfile::tempdir().unwrap();

    let three = routes("contour", &site, 3, &folder.path().join("three"), true);
    contour.put(&lab, &three, "").unwrap();
    let proxies = contour.proxies();
    assert_eq!(hosts(&proxies), ["d1.gateway.test", "d2.gateway.test", "d3.gateway.test"]);
    for proxy in &proxies {
        let of_host = proxy["spec"]["routes"].as_array().unwrap().iter();
        let paths: Vec<&str> =
            of_host.map(|route| route["conditions"][0]["exact"].as_str().unwrap()).collect();
        assert_eq!(paths, ["/ping", "/get/1"]);
        let secret = proxy["spec"]["virtualhost"]["tls"]["secretName"].as_str().unwrap();
        let secret = api.get(&Object::new("v1", "Secret", &site.namespace, secret));
        assert_eq!(secret["type"], "kubernetes.io/tls");
        assert!(["tls.crt", "tls.key"].iter().all(|file| secret["data"][file].is_string()), "{secret}");
        assert!(proxy["metadata"]["ownerReferences"].is_null(), "the namespace already removes it");
    }
    assert_eq!(secrets(api, &site).len(), 3);

    // Equal routes are not applied again.
    lab.put_routes("contour", &three.objects, three.accepted.as_ref()).unwrap();
    assert_eq!(contour.proxies(), proxies);

    // A change of one object leaves the others untouched.
    let mut changed = three.objects.clone();
    let proxy = changed.iter_mut().find(|of| of["kind"] == "HTTPProxy").unwrap();
    proxy["spec"]["routes"].as_array_mut().unwrap().pop();
    let name = proxy["metadata"]["name"].clone();
    lab.put_routes("contour", &changed, None).unwrap();
    let after = contour.proxies();
    let differ: Vec<&Value> = after
        .iter()
        .filter(|proxy| !proxies.contains(proxy))
        .map(|proxy| &proxy["metadata"]["name"])
        .collect();
    assert_eq!(differ, [&name]);

    let one = routes("contour", &site, 1, &folder.path().join("one"), false);
    contour.put(&lab, &one, "").unwrap();
    let proxies = contour.proxies();
    assert_eq!(hosts(&proxies), ["d1.gateway.test"]);
    assert!(proxies[0]["spec"]["virtualhost"]["tls"].is_null(), "{}", proxies[0]);
    assert!(secrets(api, &site).is_empty());

    lab.restore().unwrap();
    assert!(contour.proxies().is_empty());
    assert!(api.names("v1", "ConfigMap", &site.namespace, &site.selector()).is_empty());
    // After a restoration, routes can be applied again.
    contour.put(&lab, &one, "").unwrap();
    lab.restore().unwrap();
    assert!(contour.proxies().is_empty());
}

#[test]
fn rejected_routes_are_reported_and_removed() {
    let (_host, api) = (the_host(), api());
    define_kinds(api);
    let site = api.own("invalid");
    let lab = ClusterGateways::new(Arc::new(api.connect("admin")), site.clone()).waiting(SHORT);
    let contour = Contour { api, site: &site };
    let folder = tempfile::tempdir().unwrap();
    let [two, three] =
        [2, 3].map(|count| routes("contour", &site, count, &folder.path().join(count.to_string()), false));
    let error = contour.put(&lab, &three, "d3.gateway.test").unwrap_err();
    assert_eq!(error.cause, "never-ready");
    assert_eq!(
        error.message,
        format!(
            "contour: HTTPProxy weir-{}-3 is not Valid: At least one error present, see Errors for details; fqdn \
             d3.gateway.test is used elsewhere",
            site.run
        )
    );
    // The next cell has fewer hosts; the invalid host is not among them.
    contour.put(&lab, &two, "").unwrap();
    assert_eq!(hosts(&contour.proxies()), ["d1.gateway.test", "d2.gateway.test"]);

    // A condition of an earlier generation is ignored.
    let mut changed = two.clone();
    for proxy in changed.objects.iter_mut().filter(|of| of["kind"] == "HTTPProxy") {
        proxy["spec"]["routes"].as_array_mut().unwrap().truncate(1);
    }
    let error = lab.put_routes("contour", &changed.objects, changed.accepted.as_ref()).unwrap_err();
    assert!(
        error.message.ends_with("no controller has processed the change yet; is the control plane running?"),
        "{error}"
    );
    assert_eq!(contour.look(""), 2);
    lab.put_routes("contour", &changed.objects, changed.accepted.as_ref()).unwrap();

    // If the API refuses one object, those applied before it are removed later.
    let mut refused = three.clone();
    refused.objects.push(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": {},
        "metadata": { "name": "no-certificate", "namespace": site.namespace },
    }));
    let error = lab.put_routes("contour", &refused.objects, None).unwrap_err();
    assert!(error.message.contains("cannot apply Secret ") && error.message.contains("tls.crt"), "{error}");
    // A second call with the same objects applies the rejected Secret again, and fails in the same way.
    assert_eq!(lab.put_routes("contour", &refused.objects, None).unwrap_err().message, error.message);
    assert_eq!(contour.proxies().len(), 3);
    contour.put(&lab, &two, "").unwrap();
    assert_eq!(contour.proxies().len(), 2);
    lab.restore().unwrap();
    assert!(contour.proxies().is_empty());
}

#[test]
fn certificates_of_istio_routes_are_in_the_namespace_of_its_proxies() {
    let (_host, api) = (the_host(), api());
    define_kinds(api);
    api.namespace("istio-system", json!({}));
    let site = api.own("istio");
    let lab = ClusterGateways::new(Arc::new(api.connect("admin")), site.clone());
    let folder = tempfile::tempdir().unwrap();
    let count = |namespace: &str, api_version: &str, kind: &str| {
        api.names(api_version, kind, namespace, &site.selector()).len()
    };
    let counts = || {
        let istio = "networking.istio.io/v1";
        let here = &site.namespace;
        [
            count("istio-system", "v1", "Secret"),
            count(here, "v1", "Secret"),
            count(here, istio, "Gateway"),
            count(here, istio, "VirtualService"),
        ]
    };
    let three = routes("istio", &site, 3, &folder.path().join("three"), true);
    assert_eq!(three.accepted, None);
    lab.put_routes("istio", &three.objects, None).unwrap();
    assert_eq!(counts(), [3, 0, 1, 3]);
    let uid = api.get(&Object::global("v1", "Namespace", &site.namespace))["metadata"]["uid"].clone();
    let owner = json!([{ "apiVersion": "v1", "kind": "Namespace", "name": site.namespace, "uid": uid }]);
    for name in api.names("v1", "Secret", "istio-system", &site.selector()) {
        let secret = api.get(&Object::new("v1", "Secret", "istio-system", &name));
        assert_eq!(secret["metadata"]["ownerReferences"], owner, "the namespace of the run must own it");
    }
    let name = format!("weir-{}", site.run);
    let gateway = Object::new("networking.istio.io/v1", "Gateway", &site.namespace, &name);
    assert_eq!(api.get(&gateway)["spec"]["servers"].as_array().unwrap().len(), 3);

    // Two gateways of the same driver replace each other's routes in turn.
    let mut other = three.objects.clone();
    let of_other = other.iter_mut().find(|of| of["kind"] == "Gateway").unwrap();
    of_other["spec"]["selector"]["istio"] = json!("other");
    for (name, objects, selector) in [
        ("other", &other, "other"),
        ("istio", &three.objects, "ingressgateway"),
        ("other", &other, "other"),
        ("istio", &three.objects, "ingressgateway"),
    ] {
        lab.put_routes(name, objects, None).unwrap();
        assert_eq!(api.get(&gateway)["spec"]["selector"]["istio"], selector);
    }

    let one = routes("istio", &site, 1, &folder.path().join("one"), true);
    lab.put_routes("istio", &one.objects, None).unwrap();
    assert_eq!(counts(), [1, 0, 1, 1]);
    lab.restore().unwrap();
    assert_eq!(counts(), [0; 4]);
}

#[test]
fn listeners_beyond_sixty_four_are_in_listener_sets() {
    let (_host, api) = (the_host(), api());
    define_kinds(api);
    let site = api.own("envoy-gateway");
    let lab = ClusterGateways::new(Arc::new(api.connect("admin")), site.clone());
    let folder = tempfile::tempdir().unwrap();
    let group = "gateway.networking.k8s.io/v1";
    let count =
        |api_version: &str, kind: &str| api.names(api_version, kind, &site.namespace, &site.selector()).len();
    let counts = || ["Gateway", "ListenerSet", "HTTPRoute"].map(|kind| count(group, kind));
    let name = format!("weir-{}", site.run);
    let object = |kind: &str, name: &str| api.get(&Object::new(group, kind, &site.namespace, name));
    let listeners =
        |kind: &str, name: &str| object(kind, name)["spec"]["listeners"].as_array().unwrap().len();

    let many = routes("envoy-gateway", &site, 130, &folder.path().join("many"), true);
    assert_eq!(many.data.name, name, "the workload that Envoy Gateway creates for the Gateway of the run");
    lab.put_routes("envoy-gateway", &many.objects, None).unwrap();
    assert_eq!(counts(), [1, 2, 130]);
    let [second, third] = [2, 3].map(|number| format!("{name}-{number}"));
    let sizes = [("Gateway", &name), ("ListenerSet", &second), ("ListenerSet", &third)]
        .map(|(kind, of)| listeners(kind, of));
    assert_eq!(sizes, [64, 64, 2]);
    for (host, parent) in [(1, &name), (64, &name), (65, &second), (128, &second), (129, &third)] {
        let route = object("HTTPRoute", &format!("{name}-{host}-1"));
        let parent = json!({
            "kind": if *parent == name { "Gateway" } else { "ListenerSet" },
            "name": parent, "sectionName": format!("https-{host}"),
        });
        assert_eq!(route["spec"]["parentRefs"], json!([parent]));
    }
    let proxy = api.get(&Object::new("gateway.envoyproxy.io/v1alpha1", "EnvoyProxy", &site.namespace, &name));
    let deployment = &proxy["spec"]["provider"]["kubernetes"]["envoyDeployment"];
    assert_eq!(
        deployment["container"]["resources"]["limits"]["cpu"], "500m",
        "its control plane sets the limits"
    );

    let plain = routes("envoy-gateway", &site, 130, &folder.path().join("plain"), false);
    lab.put_routes("envoy-gateway", &plain.objects, None).unwrap();
    assert_eq!((counts(), count("v1", "Secret")), ([1, 0, 130], 0));
    assert_eq!(listeners("Gateway", &name), 1);
    lab.restore().unwrap();
    assert_eq!((counts(), count("gateway.envoyproxy.io/v1alpha1", "EnvoyProxy")), ([0; 3], 0));
}
