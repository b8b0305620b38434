//! Results of a run in its namespace: written, fetched, stored, removed.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weir_kube::Object;
use weir_lab::pods::{CHUNK_BYTES, Ending, PartSpec, PodHost, Pods, Results, Site, coordinator_manifests};
use weir_results::{Archive, Cell, FileKind, KeptFile, Role, Run, Store, read_archive};
use weir_rig::Limits;

use super::api::{Api, api, manifest};
use super::rights::rights_of;
use crate::program::{the_host, until};

const ARCHIVE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/weir-results/tests/fixtures/archive-1-schema-1.weir");

/// An archive with two cells: a measured one and a failed one.
pub fn archived() -> Archive {
    read_archive("the fixture", File::open(ARCHIVE).unwrap()).unwrap()
}

/// A small run with the ID of `site`, and its cells: one measured, one failed.
fn measured(site: &Site) -> (Run, Vec<Cell>) {
    let Archive { run, cells } = archived();
    assert_eq!(cells.len(), 2);
    (Run { id: site.run.clone(), ended_unix_ms: None, ..run }, cells)
}

fn results(api: &Api, site: &Site) -> Results {
    Results::new(Arc::new(api.connect("admin")), site.clone())
}

/// The names of the Secrets with a run's data.
fn secrets(api: &Api, site: &Site) -> Vec<String> {
    api.names("v1", "Secret", &site.namespace, &site.selector())
}

/// A file that gzip hardly compresses.
fn large(bytes: usize) -> KeptFile {
    let mut state = 7_u32;
    let letter = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'0' + (state >> 26) as u8)
    };
    let text: String = (0..bytes).map(letter).collect();
    KeptFile { name: "gateway/large.log".into(), kind: FileKind::Log, bytes: bytes as u64, text }
}

#[test]
fn finished_cells_are_fetched_unchanged_during_and_after_the_run() {
    let (_host, api) = (the_host(), api());
    let site = api.shared("results", "results");
    let results = results(api, &site);
    let (run, cells) = measured(&site);
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("weir.db")).unwrap();

    let nothing = results.fetch().unwrap();
    assert!(nothing.run.is_none() && nothing.cells.is_empty() && nothing.ending.is_none(), "{nothing:?}");
    assert_eq!(nothing.store(&mut store).unwrap(), 0);
    assert!(store.runs().unwrap().is_empty());

    results.keep_cell(&run, &cells[1]).unwrap();
    let fetched = results.fetch().unwrap();
    assert_eq!((fetched.run.as_ref(), &fetched.cells[..]), (Some(&run), &cells[1..]));
    assert_eq!((fetched.store(&mut store).unwrap(), fetched.store(&mut store).unwrap()), (1, 0));
    assert_eq!((results.ending().unwrap(), store.finished(&run.id).unwrap()), (None, [1].into()));

    results.keep_cell(&run, &cells[0]).unwrap();
    let ended = Run { ended_unix_ms: Some(99), ..run.clone() };
    let ending = Ending { is_finished: true, message: String::new(), remedy: String::new() };
    results.keep_end(Some(&ended), &ending).unwrap();
    let fetched = results.fetch().unwrap();
    assert_eq!((results.ending().unwrap(), fetched.ending.as_ref()), (Some(ending.clone()), Some(&ending)));
    assert_eq!(fetched.store(&mut store).unwrap(), 1);
    assert_eq!(store.run(&run.id).unwrap(), ended);
    assert_eq!(store.cells(&run.id).unwrap(), cells);
    // A second `keep_end` replaces the stored ending.
    let worse = Ending { is_finished: false, message: "the pod is gone".into(), remedy: "x".into() };
    results.keep_end(Some(&ended), &worse).unwrap();
    assert_eq!(results.fetch().unwrap().ending, Some(worse));
    assert_eq!(secrets(api, &site).len(), 4);
}

#[test]
fn a_cell_larger_than_a_secret_is_fetched_completely_or_not_at_all() {
    let (_host, api) = (the_host(), api());
    let site = api.shared("results-large", "large");
    let results = results(api, &site);
    let (run, mut cells) = measured(&site);
    cells[0].files.push(large(3 * CHUNK_BYTES));
    cells.iter().for_each(|cell| results.keep_cell(&run, cell).unwrap());
    let of_large = |number: u32| format!("weir-{}-cell-0-{number}", site.run);
    let chunks: Vec<String> =
        secrets(api, &site).into_iter().filter(|name| name.contains("-cell-0-")).collect();
    assert_eq!(chunks, [of_large(0), of_large(1), of_large(2)]);
    assert_eq!(results.fetch().unwrap().cells, cells);

    for missing in [2, 0] {
        let secret = Object::new("v1", "Secret", &site.namespace, &of_large(missing));
        api.admin().remove(&secret, Duration::from_secs(30)).unwrap();
        let fetched = results.fetch().unwrap();
        assert_eq!((fetched.run.as_ref(), &fetched.cells[..]), (Some(&run), &cells[1..]));
    }
    // After the cell is written again, it is complete.
    results.keep_cell(&run, &cells[0]).unwrap();
    assert_eq!(results.fetch().unwrap().cells, cells);
}

#[test]
fn an_exceeded_quota_is_reported() {
    let (_host, api) = (the_host(), api());
    let site = api.shared("results-quota", "quota");
    let results = results(api, &site);
    let (run, cells) = measured(&site);
    results.keep_cell(&run, &cells[0]).unwrap();
    let quota = json!({ "spec": { "hard": { "secrets": "1" } } });
    let quota = manifest("v1", "ResourceQuota", &site.namespace, "few", quota);
    api.admin().apply(std::slice::from_ref(&quota), Duration::ZERO).unwrap();
    let counted = json!({ "hard": { "secrets": "1" }, "used": { "secrets": "1" } });
    api.set_status(&Object::of(&quota).unwrap(), &counted);
    let probe = manifest("v1", "Secret", &site.namespace, "probe", json!({}));
    until("the quota applies", || match api.admin().create(&probe) {
        Ok(_) => {
            api.admin().delete(std::slice::from_ref(&probe)).unwrap();
            false
        }
        Err(error) => error.is_against_policy(),
    });
    let error = results.keep_cell(&run, &cells[1]).unwrap_err();
    let name = format!("weir-{}-cell-1-0", site.run);
    let begin = format!("cannot apply Secret results-quota/{name}: ");
    assert!(error.message.starts_with(&begin), "{error}");
    assert!(
        error
            .message
            .ends_with("exceeded quota: few, requested: secrets=1, used: secrets=1, limited: secrets=1"),
        "{error}"
    );
    assert!(error.remedy.contains("change the quota or policy"), "{}", error.remedy);
    // Earlier cells remain and can be written again.
    results.keep_cell(&run, &cells[0]).unwrap();
    assert_eq!(results.fetch().unwrap().cells, cells[..1]);
}

/// All objects of a run in its namespace.
fn objects(api: &Api, site: &Site) -> Vec<String> {
    let kinds = [
        ("v1", "Pod"),
        ("v1", "Secret"),
        ("v1", "ConfigMap"),
        ("v1", "Service"),
        ("v1", "ServiceAccount"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "Job"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ];
    let named = |(api_version, kind): (&str, &str)| {
        let names = api.names(api_version, kind, &site.namespace, &site.selector());
        names.into_iter().map(|name| format!("{kind} {name}")).collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(named).collect()
}

#[test]
fn two_runs_in_one_namespace_neither_see_nor_remove_each_other() {
    let (_host, api) = (the_host(), api());
    let sites = ["both-1", "both-2"].map(|run| api.shared("results-both", run));
    let of_nobody = manifest("v1", "ConfigMap", "results-both", "of-nobody", json!({ "data": {} }));
    api.admin().apply(&[of_nobody], Duration::ZERO).unwrap();
    let mut carriers = Vec::new();
    for (number, site) in sites.iter().enumerate() {
        let starts = coordinator_manifests(site, b"the run", &rights_of(&["weir"]));
        api.admin().apply(&starts, Duration::ZERO).unwrap();
        let (run, cells) = measured(site);
        results(api, site).keep_cell(&run, &cells[number]).unwrap();
        // Files of a gateway with the name "cell" must not be read as cells.
        let pods = Pods::new(api.connect("admin"), site.clone(), IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.conf"), "a").unwrap();
        let part = PartSpec {
            name: "cell",
            role: Role::Data,
            image: None,
            command: &["weir".into()],
            env: &[],
            limits: Limits { cpus: Some(0.5), memory_bytes: Some(1 << 28) },
            folders: vec![folder.path()],
            root: folder.path(),
        };
        carriers.push(pods.part(&part, "127.0.0.1:7400".parse().unwrap(), "the ticket").unwrap());
        pods.binding(8080).unwrap();
    }
    let all = sites.each_ref().map(|site| objects(api, site));
    for (number, site) in sites.iter().enumerate() {
        let (run, cells) = measured(site);
        let fetched = results(api, site).fetch().unwrap();
        assert_eq!((fetched.run.as_ref(), &fetched.cells[..]), (Some(&run), &cells[number..=number]));
    }
    // Each run has ten objects: a Pod, a Deployment, a Service, a ServiceAccount, a Role, a RoleBinding, and four
    // Secrets.
    assert_eq!((all[0].len(), all[1].len()), (10, 10), "{all:?}");
    results(api, &sites[0]).clean().unwrap();
    assert_eq!((objects(api, &sites[0]), objects(api, &sites[1])), (vec![], all[1].clone()));
    results(api, &sites[0]).clean().unwrap();
    results(api, &sites[1]).clean().unwrap();
    assert_eq!(objects(api, &sites[1]), Vec::<String>::new());
    assert_eq!(api.names("v1", "ConfigMap", "results-both", ""), ["of-nobody"]);
    assert_eq!(api.names("v1", "ServiceAccount", "results-both", ""), ["default"]);
}

#[test]
fn a_namespace_created_for_a_run_is_removed_with_it() {
    let (_host, api) = (the_host(), api());
    let site = api.own("owned");
    let (run, cells) = measured(&site);
    results(api, &site).keep_cell(&run, &cells[0]).unwrap();
    results(api, &site).clean().unwrap();
    assert_eq!(api.admin().get(&Object::global("v1", "Namespace", &site.namespace)).unwrap(), None);
    assert!(objects(api, &site).is_empty());
    // There is nothing to fetch, and nothing to remove.
    assert!(results(api, &site).fetch().unwrap().run.is_none());
    results(api, &site).clean().unwrap();
}
