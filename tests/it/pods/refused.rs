//! Runs that cannot start because a permission or the cluster is missing. The error names what is missing, and the run
//! leaves nothing behind.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use weir_kube::{Object, Selected};

use super::api::{Api, api, rule};
use crate::program::{finish, free_port, text, the_host, weir};

/// `weir run quickstart --on PLACE` with a kubeconfig.
fn run(folder: &Path, kubeconfig: &Path, place: &str, more: &[&str]) -> Output {
    let mut command = weir(folder, &[&["run", "quickstart", "--on", place], more].concat());
    command.env("KUBECONFIG", kubeconfig);
    finish(command)
}

/// The ID of the run that weir tried to start.
fn id_of(output: &Output) -> String {
    let said = text(&output.stderr);
    let line = said.lines().find_map(|line| line.strip_prefix("run ")).unwrap_or_else(|| panic!("{said}"));
    line.split(':').next().unwrap().to_owned()
}

/// Asserts that the cluster has no object of a run.
fn assert_nothing_left(api: &Api, id: &str) {
    let space = Object::global("v1", "Namespace", &format!("weir-{id}"));
    assert_eq!(api.admin().get(&space).unwrap(), None);
    for (api_version, kind) in [
        ("v1", "Namespace"),
        ("v1", "Pod"),
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ] {
        let left =
            api.admin().list(&Selected::everywhere(api_version, kind, &format!("weir/run={id}"))).unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[track_caller]
fn assert_says(output: &Output, said: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    for expected in said {
        assert!(error.contains(expected), "no `{expected}` in:\n{error}");
    }
    assert!(error.lines().any(|line| line.trim_start().starts_with("help: ")), "{error}");
}

#[test]
fn a_run_without_a_right_names_it_and_leaves_nothing_behind() {
    let (_host, api) = (the_host(), api());
    api.namespace("refused", json!({}));
    let spaces = |verbs: &[&str]| rule("", &["namespaces"], verbs);
    let without_roles = [
        spaces(&["get", "list", "create", "delete"]),
        json!({ "apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["*"] }),
    ];
    // The verbs `escalate` and `bind` are missing.
    let roles =
        rule("rbac.authorization.k8s.io", &["roles", "rolebindings"], &["get", "list", "create", "patch"]);
    let without_jobs = [&without_roles[..], &[roles]].concat();
    let check = |name: &str, rules: &[Value], more: &[&str], said: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let token = api.account("refused", name);
        let subject = json!({ "kind": "ServiceAccount", "name": name, "namespace": "refused" });
        api.grant(&format!("refused-{name}"), None, subject, rules);
        let kubeconfig = api.kubeconfig(folder.path(), &[(name, &token)]);
        let output = run(folder.path(), &kubeconfig, "k8s", more);
        assert_says(&output, said);
        assert_nothing_left(api, &id_of(&output));
        // A run that did not start cannot be resumed.
        let resumed = weir(folder.path(), &["run", "--resume", "last", "--plan"]);
        assert_eq!(finish(resumed).status.code(), Some(2));
    };
    let ask = "help: request the permission that the message names; `weir k8s render SCENARIO` prints";
    let user = |name: &str| format!("User \"system:serviceaccount:refused:{name}\" cannot ");
    check(
        "nobody",
        &[],
        &[],
        &["error: cannot get Namespace weir-", &user("nobody"), "get resource \"namespaces\"", ask],
    );
    check(
        "looker",
        &[spaces(&["get", "list"])],
        &[],
        &[
            "error: cannot create Namespace weir-",
            &user("looker"),
            "create resource \"namespaces\"",
            "help: request permission to create namespaces, or use an existing one: --namespace NAMESPACE",
        ],
    );
    check(
        "without-roles",
        &without_roles,
        &[],
        &["error: cannot apply Role weir-", &user("without-roles"), "patch resource \"roles\"", ask],
    );
    check(
        "without-jobs",
        &without_jobs,
        &[],
        &[
            "error: cannot apply Role weir-",
            "attempting to grant RBAC permissions not currently held",
            "batch",
            ask,
        ],
    );
    check(
        "elsewhere",
        &[spaces(&["get"])],
        &["--namespace", "refused"],
        &["error: cannot apply ServiceAccount refused/weir-", "patch resource \"serviceaccounts\"", ask],
    );
}

#[test]
fn a_cluster_that_cannot_be_reached_is_an_error_with_a_remedy() {
    let (_host, api) = (the_host(), api());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let kubeconfig = api.kubeconfig(folder, &[("one", "x"), ("two", "x")]);
    let contexts = "help: check the kubeconfig and its contexts: kubectl config get-contexts";
    let missing = run(folder, &kubeconfig, "k8s:tow", &[]);
    let expected = "error: cannot connect to the Kubernetes API at context `tow`: the kubeconfig has no context `tow`; \
                    known contexts: one, two";
    assert_says(&missing, &[expected, contexts]);
    let missing = run(folder, &folder.join("no-kubeconfig"), "k8s", &[]);
    assert_says(
        &missing,
        &["error: cannot connect to the Kubernetes API at the current context: ", contexts],
    );

    // An unknown token.
    let unknown = run(folder, &kubeconfig, "k8s:two", &[]);
    assert_says(&unknown, &["Unauthorized"]);

    let config = std::fs::read_to_string(&kubeconfig).unwrap();
    let nowhere = format!("127.0.0.1:{}", free_port());
    std::fs::write(&kubeconfig, config.replace(&api.address.to_string(), &nowhere)).unwrap();
    let gone = run(folder, &kubeconfig, "k8s", &[]);
    assert_says(&gone, &["Connection refused", "help: check that the cluster responds: kubectl get nodes"]);
    for command in ["attach", "fetch", "clean"] {
        let mut command = weir(folder, &["k8s", command, "last"]);
        command.env("KUBECONFIG", &kubeconfig);
        let gone = finish(command);
        assert_says(
            &gone,
            &["Connection refused", "help: check that the cluster responds: kubectl get nodes"],
        );
    }
}
