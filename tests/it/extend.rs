//! More repeats for a run that is there.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::program::{finish, json, text, the_host, weir};
use crate::run::run;

fn cells(result: &Value) -> Vec<(String, u64, u64)> {
    let one = |cell: &Value| {
        let key = &cell["key"];
        let started = cell["started_unix_ms"].as_u64().unwrap();
        (key["gateway"].as_str().unwrap().to_owned(), key["repeat"].as_u64().unwrap(), started)
    };
    result["cells"].as_array().unwrap().iter().map(one).collect()
}

fn resume(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let all =
        [&["run", "--resume", "last", "--db", "weir.db", "--out", "out", "--json"][..], arguments].concat();
    finish(weir(folder, &all))
}

/// The keys of a plan, in their order.
fn keys(plan: &Value) -> Vec<Value> {
    plan["cells"].as_array().unwrap().iter().map(|cell| cell["key"].clone()).collect()
}

#[test]
fn a_finished_run_is_extended_to_the_cells_of_a_longer_one() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let seed = ["--seed", "11"];
    let before = cells(&json(&run(folder, "[weir]", "", &[&seed[..], &["--repeats", "1"]].concat())));
    assert_eq!(before.len(), 2);
    let whole = keys(&json(&run(folder, "[weir]", "", &[&seed[..], &["--repeats", "3", "--plan"]].concat())));
    let missing = keys(&json(&resume(folder, &["--repeats", "3", "--plan"])));
    assert_eq!(missing, whole[2..], "the plan of what is missing");
    assert_eq!(cells(&json(&resume(folder, &[]))), before, "a plan changes nothing");

    let result = json(&resume(folder, &["--repeats", "3"]));
    let after = cells(&result);
    assert_eq!(result["run"]["plan"].as_array().unwrap(), &whole);
    assert_eq!(after[..2], before, "what was there is not measured again");
    let distinct: BTreeSet<_> = after.iter().map(|(gateway, repeat, _)| (gateway, repeat)).collect();
    assert_eq!((after.len(), distinct.len()), (6, 6), "{after:?}");

    let output = resume(folder, &["--repeats", "2"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("--repeats 2") && error.contains("already has 3 repeats"), "{error}");
    assert_eq!(cells(&json(&resume(folder, &[]))), after);
}
