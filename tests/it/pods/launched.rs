//! `weir run --on k8s`, `weir k8s attach`, `fetch` and `clean`. The test stands in for the coordinator.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use weir_kube::{Object, Selected};
use weir_lab::pods::{Ending, Results, Site, joined};
use weir_results::{Cell, Run, read_archive};

use super::api::{Api, api};
use super::results::archived;
use crate::program::{self, finish, text, the_host, until, wait, weir};

/// The command line of a user.
struct User {
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
}

/// A run, as its coordinator sees it.
struct Coordinator {
    site: Site,
    results: Results,
    run: Run,
}

impl User {
    fn new(api: &Api, token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = api.kubeconfig(folder.path(), &[("it", token)]);
        Self { folder, kubeconfig }
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = weir(self.folder(), arguments);
        command.env("KUBECONFIG", &self.kubeconfig);
        command
    }

    #[track_caller]
    fn weir(&self, arguments: &[&str], code: i32) -> Output {
        let output = finish(self.command(arguments));
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        output
    }

    /// The number of the run's cells in the database.
    fn cells(&self, run: &str) -> usize {
        let report = finish(self.command(&["report", run, "--json"]));
        program::json(&report)["cells"].as_array().unwrap().len()
    }
}

impl Coordinator {
    /// The coordinator of the run `id` in `namespace`; `None` means the namespace that weir creates for the run.
    fn of(api: &Api, id: &str, namespace: Option<&str>) -> Self {
        let site = Site {
            namespace: namespace.map_or_else(|| Site::own_namespace(id), str::to_owned),
            is_own: namespace.is_none(),
            run: id.to_owned(),
            image: "x".into(),
            has_samplers: false,
        };
        let selected = Selected::new(
            "v1",
            "Secret",
            &site.namespace,
            &format!("{},weir/data=scenario", site.selector()),
        );
        let secrets = api.admin().list(&selected).unwrap();
        let data = joined(&secrets).unwrap().unwrap();
        let run = read_archive("the scenario", &data[..]).unwrap().run;
        let results = Results::new(Arc::new(api.connect("admin")), site.clone());
        Self { site, results, run }
    }

    /// Finishes the first `count` cells of the plan.
    fn finish_cells(&self, count: usize) {
        let failed = archived().cells.swap_remove(1);
        for key in &self.run.plan[..count] {
            self.results.keep_cell(&self.run, &Cell { key: key.clone(), ..failed.clone() }).unwrap();
        }
    }

    fn end(&self, message: &str) {
        let ending = Ending {
            is_finished: message.is_empty(),
            message: message.into(),
            remedy: "start it again".into(),
        };
        let run = Run { ended_unix_ms: Some(self.run.started_unix_ms + 1), ..self.run.clone() };
        self.results.keep_end(message.is_empty().then_some(&run), &ending).unwrap();
    }

    fn pod(&self) -> Object {
        Object::new("v1", "Pod", &self.site.namespace, &self.site.coordinator())
    }
}

/// The ID of the started run.
fn id_of(said: &str) -> String {
    let line = said.lines().find_map(|line| line.strip_prefix("run ")).unwrap_or_else(|| panic!("{said}"));
    line.split(':').next().unwrap().to_owned()
}

fn namespace_of(id: &str) -> Object {
    Object::global("v1", "Namespace", &Site::own_namespace(id))
}

const RUN: [&str; 6] = ["run", "quickstart", "--on", "k8s", "--image", "registry.test/weir:0.1.0"];

#[test]
fn the_administrator_of_a_namespace_starts_detached_and_attaches_later() {
    let (_host, api) = (the_host(), api());
    api.namespace("launched", json!({ "pod-security.kubernetes.io/enforce": "restricted" }));
    let token = api.account("launched", "admin");
    let everything = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] });
    let subject = json!({ "kind": "ServiceAccount", "name": "admin", "namespace": "launched" });
    api.grant("admin", Some("launched"), subject, &[everything]);
    let user = User::new(api, &token);
    let here = ["--namespace", "launched"];
    let started = user.weir(&[&RUN[..], &here, &["--detach"]].concat(), 0);
    let said = text(&started.stderr);
    let id = id_of(&said);
    assert!(said.contains(&format!("`weir k8s attach {id} --namespace launched` follows it")), "{said}");
    let coordinator = Coordinator::of(api, &id, Some("launched"));
    let planned = coordinator.run.plan.len();
    assert!(planned > 2 && coordinator.run.id == id, "{planned}");
    assert_eq!(api.get(&coordinator.pod())["spec"]["containers"][0]["image"], "registry.test/weir:0.1.0");

    coordinator.finish_cells(1);
    for new in [1, 0] {
        let fetched = user.weir(&[&["k8s", "fetch", "last"], &here[..]].concat(), 0);
        let expected = format!(
            "run {id}: 1 of {planned} cells finished, {new} of them fetched now; the run continues\n"
        );
        assert_eq!(text(&fetched.stdout), expected);
    }
    coordinator.finish_cells(planned);
    coordinator.end("");
    let attached = user.weir(&[&["k8s", "attach", &id], &here[..]].concat(), 0);
    assert!(text(&attached.stdout).starts_with(&format!("run {id} is finished")), "{attached:?}");
    assert_eq!(user.cells(&id), planned);
    // The namespace still exists, without any object of the run.
    assert_eq!(api.names("v1", "Secret", "launched", ""), Vec::<String>::new());
    assert_eq!(api.names("v1", "ServiceAccount", "launched", ""), ["admin", "default"]);
    let gone = user.weir(&[&["k8s", "clean", &id], &here[..]].concat(), 2);
    assert!(text(&gone.stderr).contains("no such run in the cluster"), "{gone:?}");
}

#[test]
fn an_interrupted_run_keeps_its_cells_and_removes_its_namespace() {
    let (_host, api) = (the_host(), api());
    let user = User::new(api, api.token());
    let log = user.folder().join("log");
    let file = std::fs::File::create(&log).unwrap();
    let mut command = user.command(&RUN);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).spawn().unwrap();
    let said = || std::fs::read_to_string(&log).unwrap();
    until("the start of the run", || said().contains(" runs in namespace weir-"));
    let coordinator = Coordinator::of(api, &id_of(&said()), None);
    coordinator.finish_cells(2);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130), "{}", said());
    let planned = coordinator.run.plan.len();
    assert!(said().contains(&format!("interrupted: 2 of {planned} cells stored")), "{}", said());
    assert_eq!(api.admin().get(&namespace_of(&coordinator.run.id)).unwrap(), None);
}

#[test]
fn a_run_that_ends_early_reports_why_and_is_removed() {
    let (_host, api) = (the_host(), api());
    let user = User::new(api, api.token());
    let start = || {
        let started = user.weir(&[&RUN[..], &["--detach"]].concat(), 0);
        Coordinator::of(api, &id_of(&text(&started.stderr)), None)
    };
    let [early, killed, cleaned] = [start(), start(), start()];
    early.finish_cells(1);
    early.end("node-1 has no room");
    let attached = user.weir(&["k8s", "attach", &early.run.id], 3);
    let said = text(&attached.stderr);
    assert!(said.contains("error: node-1 has no room\n") && said.contains("help: start it again"), "{said}");
    assert_eq!(user.cells(&early.run.id), 1);
    assert_eq!(api.admin().get(&namespace_of(&early.run.id)).unwrap(), None);

    // The pod was killed before it could report how the run ended.
    let status = json!({ "phase": "Failed", "containerStatuses": [{
        "name": "coordinator", "image": "x", "imageID": "x", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } },
    }] });
    api.set_status(&killed.pod(), &status);
    killed.finish_cells(1);
    let attached = user.weir(&["k8s", "attach", &killed.run.id], 3);
    let said = text(&attached.stderr);
    assert!(
        said.contains("the coordinator pod has failed: container coordinator: OOMKilled (exit code 137)"),
        "{said}"
    );
    assert_eq!(user.cells(&killed.run.id), 1);
    assert_eq!(api.admin().get(&namespace_of(&killed.run.id)).unwrap(), None);

    let output = user.weir(&["k8s", "clean", &cleaned.run.id], 0);
    assert_eq!(text(&output.stdout), format!("run {} is removed from the cluster\n", cleaned.run.id));
    assert_eq!(api.admin().get(&namespace_of(&cleaned.run.id)).unwrap(), None);
}
