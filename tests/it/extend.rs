//! More repeats for a stored run.

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
fn an_extended_run_has_the_cells_of_a_run_with_more_repeats() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let seed = ["--seed", "11"];
    let before = cells(&json(&run(folder, "[weir]", "", &[&seed[..], &["--repeats", "1"]].concat())));
    assert_eq!(before.len(), 2);
    let whole = keys(&json(&run(folder, "[weir]", "", &[&seed[..], &["--repeats", "3", "--plan"]].concat())));
    let missing = keys(&json(&resume(folder, &["--repeats", "3", "--plan"])));
    assert_eq!(missing, whole[2..], "the plan of the missing cells");
    assert_eq!(cells(&json(&resume(folder, &[]))), before, "a plan changes nothing");

    let result = json(&resume(folder, &["--repeats", "3"]));
    let after = cells(&result);
    assert_eq!(result["run"]["plan"].as_array().unwrap(), &whole);
    assert_eq!(after[..2], before, "finished cells were measured again");
    let distinct: BTreeSet<_> = after.iter().map(|(gateway, repeat, _)| (gateway, repeat)).collect();
    assert_eq!((after.len(), distinct.len()), (6, 6), "{after:?}");

    let output = resume(folder, &["--repeats", "2"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("--repeats 2") && error.contains("already has 3 repeats"), "{error}");
    assert_eq!(cells(&json(&resume(folder, &[]))), after);
}

#[test]
fn until_adds_repeats_one_by_one_and_reports_why_it_stops() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // No value reaches this precision.
    let until = ["--until", "cpu=0.001%,p50=0.001%,throughput=0.001%", "--at-most", "4"];
    let output = run(folder, "[weir]", "thresholds: { disturbed_share: 1, worker_busy_share: 1 }\n", &until);
    let (result, error) = (json(&output), text(&output.stderr));
    assert_eq!(cells(&result).len(), 8, "four repeats of weir and of direct: {error}");
    assert!(
        error.contains(
            "--until: stopped after 4 repeats, the maximum (--at-most). Intervals too wide: cpu of weir"
        ),
        "{error}"
    );
    assert_eq!(result["run"]["manifest"]["repeats_were_added"], true);
    assert_eq!(result["run"]["scenario"]["repeats"], 4);

    let wrong = |until: &str| {
        let output = finish(weir(folder, &["run", "quickstart", "--until", until]));
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(wrong("rps=5%").contains("unknown metric `rps`"));
    assert!(wrong("cpu").contains("METRIC=SHARE"));
}
