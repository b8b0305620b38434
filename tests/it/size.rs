//! `weir size`: the Gorouter example (four instances) on a prepared store and on a real run, every kind of refusal, and
//! invalid arguments.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json as value};
use weir_results::{
    ArrivalModel, Cell, CellOutcome, Found, Measurement, Objective, Reason, Role, Run, Stopped, Store,
    TimesNs, Trial, TrialSays,
};

use crate::objectives::ANYTHING_COUNTS;
use crate::pages::blocks;
use crate::program::{finish, json, text, the_host, weir};

const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../weir-results/tests/fixtures/archive-1-schema-1.weir");

/// A load point: (requests per second, p99 in milliseconds, share of the CPU limit, reason why the latency is not
/// valid).
type Rate = (u64, u64, f64, Option<Reason>);

/// Gateways of the prepared run and their load points with one core. With half a core, the rates are halved.
const GATEWAYS: [(&str, &[Rate]); 6] = [
    ("weir", &[(1_000, 5, 0.2, None), (2_500, 18, 0.5, None), (5_000, 60, 0.9, None)]),
    ("nginx", &[(2_500, 25, 0.6, None), (5_000, 70, 0.9, None)]),
    ("haproxy", &[(1_000, 6, 0.75, None), (2_500, 30, 0.95, Some(Reason::Overloaded))]),
    ("envoy", &[(1_000, 20, 0.4, None), (2_500, 40, 0.8, None)]),
    (
        "mine",
        &[
            (1_000, 4, 0.3, Some(Reason::HostNoise)),
            (2_000, 6, 0.5, None),
            (4_000, 9, 0.9, Some(Reason::GeneratorLimited)),
        ],
    ),
    ("sought", &[]),
];

/// (Gateway, capacity per second) of the capacity searches on one core, at the run's objective.
const SOUGHT: [(&str, f64); 1] = [("sought", 3_100.0)];

/// A folder whose `weir.db` has a run of these gateways, derived from a real measurement.
pub fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let archive = weir_results::read_archive("fixture", std::fs::File::open(FIXTURE).unwrap()).unwrap();
    let is_measured = |cell: &&Cell| matches!(cell.outcome, CellOutcome::Measured { .. });
    let cell = archive.cells.iter().find(is_measured).unwrap();
    let mut cells = Vec::new();
    for cpus in [0.5, 1.0] {
        for (gateway, rates) in GATEWAYS {
            cells.extend((0..3).map(|repeat| filled_cell(cell, gateway, rates, cpus, repeat)));
        }
    }
    for (index, cell) in cells.iter_mut().enumerate() {
        cell.key.index = index as u32;
    }
    let mut run = Run { plan: cells.iter().map(|cell| cell.key.clone()).collect(), ..archive.run };
    run.scenario = value!({ "gateways": GATEWAYS.map(|(name, _)| name), "loads": {} });
    run.objective = Some(objective());
    let mut store = Store::open(&folder.path().join("weir.db")).unwrap();
    store.begin_run(&run).unwrap();
    for cell in &cells {
        store.add_cell(&run.id, cell).unwrap();
    }
    store.end_run(&run.id, run.started_unix_ms + 1_000).unwrap();
    folder
}

fn filled_cell(like: &Cell, gateway: &str, rates: &[Rate], cpus: f64, repeat: u32) -> Cell {
    let mut cell = like.clone();
    cell.key.gateway = gateway.into();
    cell.key.repeat = repeat;
    cell.key.axes = BTreeMap::from([("limits.data.cpus".to_owned(), value!(cpus))]);
    let data = cell.parts.iter_mut().find(|part| part.role == Role::Data).unwrap();
    data.limit_cpus = Some(cpus);
    let (name, CellOutcome::Measured { measurements }) = (data.name.clone(), &like.outcome) else { panic!() };
    let like = &measurements[0];
    let filled = rates.iter().map(|of| filled_measurement(like, &name, of, cpus, repeat));
    let sought = SOUGHT.iter().filter(|(of, _)| *of == gateway);
    let sought =
        sought.map(|(_, per_s)| filled_search(like, per_s * cpus * (1.0 + 0.01 * f64::from(repeat))));
    cell.outcome = CellOutcome::Measured { measurements: filled.chain(sought).collect() };
    cell
}

/// The last trial of a search, with the search's result.
fn filled_search(like: &Measurement, capacity_per_s: f64) -> Measurement {
    let found = Found {
        objective: objective(),
        capacity_per_s: Some(capacity_per_s),
        interval_per_s: Some([capacity_per_s * 0.96, capacity_per_s * 1.04]),
        at_least_per_s: None,
        below_per_s: None,
        limited_by: Some("p99".into()),
        trials: 20,
        invalid: 0,
        stopped: Stopped::Precise,
    };
    let trial = Trial { number: 20, says: TrialSays::Met, why: String::new(), found: Some(found) };
    Measurement { load: "capacity".into(), trial: Some(trial), ..like.clone() }
}

fn objective() -> Objective {
    let latency_ns = BTreeMap::from([("p99".to_owned(), 20_000_000)]);
    Objective { latency_ns, errors: Some(0.001), ..Objective::default() }
}

fn filled_measurement(like: &Measurement, data: &str, of: &Rate, cpus: f64, repeat: u32) -> Measurement {
    let (rate_per_s, p99_ms, share, invalid) = *of;
    let rate_per_s = rate_per_s as f64 * cpus;
    // Repeats differ by 3 % in latency and 0.2 % in rate, so that intervals have a width.
    let wobble = f64::from(repeat) - 1.0;
    let mut measurement = like.clone();
    measurement.load = format!("steady-{rate_per_s}");
    measurement.rate_per_s = Some(rate_per_s);
    let result = &mut measurement.record.result;
    result.model = ArrivalModel::Open;
    result.rate_per_s = rate_per_s * (1.0 + 0.002 * wobble);
    let p99_ns = p99_ms as f64 * 1e6 * (1.0 + 0.03 * wobble);
    let at = |share: f64| Some((p99_ns * share) as u64);
    result.latency_ns = TimesNs {
        min: at(0.1),
        mean: Some(p99_ns * 0.4),
        stddev: Some(p99_ns * 0.2),
        p50: at(0.3),
        p66: at(0.35),
        p75: at(0.4),
        p80: at(0.5),
        p90: at(0.6),
        p95: at(0.7),
        p98: at(0.9),
        p99: at(1.0),
        p999: at(2.0),
        p9999: at(3.0),
        max: at(4.0),
    };
    let usage = measurement.usage.get_mut(data).unwrap();
    usage.cpu_share_of_limit = Some(share * (1.0 + 0.01 * wobble));
    usage.cpu_cores = share * cpus;
    let verdicts = &mut measurement.judgement.verdicts;
    *verdicts = Default::default();
    verdicts.latency.extend(invalid);
    // Overload invalidates only latency; host noise invalidates all metrics.
    if invalid == Some(Reason::HostNoise) {
        verdicts.throughput.extend(invalid);
        verdicts.cpu.extend(invalid);
    }
    measurement
}

/// Runs `weir size` on the latest run of `folder`.
pub fn size(folder: &Path, arguments: &[&str]) -> Output {
    finish(weir(folder, &[&["size", "last", "--db", "weir.db"], arguments].concat()))
}

/// The entry of `offers` for a gateway with this CPU limit.
fn offer<'a>(sizing: &'a Value, gateway: &str, cpus: f64) -> &'a Value {
    let offers = sizing["offers"].as_array().unwrap();
    let is_meant = |offer: &&Value| offer["gateway"] == gateway && offer["axes"]["limits.data.cpus"] == cpus;
    offers.iter().find(is_meant).unwrap_or_else(|| panic!("no {gateway} on {cpus} cores in {sizing}"))
}

#[test]
fn the_gorouters_example_is_four_instances() {
    let folder = filled();
    let output = size(folder.path(), &["--rate", "10000/s", "--objective", "p99<20ms", "--json"]);
    let sizing = json(&output);
    let weir = offer(&sizing, "weir", 1.0);
    assert_eq!((&weir["outcome"], &weir["basis"]), (&"sized".into(), &"measured".into()), "{weir}");
    assert_eq!(weir["rate_per_s"]["value"], 2_500.0);
    // The three repeats carried 2,495, 2,500 and 2,505/s. At the lower bound of their interval, 10,000/s need one more
    // instance.
    assert_eq!(weir["instances"], value!({ "value": 4, "low": 4, "high": 5 }));
    assert_eq!(offer(&sizing, "weir", 0.5)["instances"]["value"], 8);
    // The objective of the capacity search also limits errors, so it is stricter than `--objective`. Therefore the
    // capacity is only a lower bound.
    let sought = offer(&sizing, "sought", 1.0);
    assert_eq!(
        (&sought["basis"], &sought["instances"]["value"]),
        (&"at-least".into(), &4.into()),
        "{sought}"
    );
    // With 0.5 cores and with 1 core, nginx misses the objective even at its lowest rate, so the command has no result
    // for it.
    assert_eq!(output.status.code(), Some(1));
    for (gateway, why) in [("nginx", "never-met"), ("envoy", "borderline")] {
        let offer = offer(&sizing, gateway, 1.0);
        assert_eq!((&offer["outcome"], &offer["why"]), (&"refused".into(), &why.into()), "{offer}");
        assert!(offer["remedy"].as_str().unwrap().contains("measure"), "{offer}");
    }
    assert_eq!(offer(&sizing, "haproxy", 1.0)["rate_per_s"]["value"], 1_000.0, "overload is no miss");
    assert_eq!(offer(&sizing, "mine", 1.0)["basis"], "at-least", "invalid load points are not ignored");

    // Text output. The command succeeds, because every gateway has a result.
    let output = size(folder.path(), &["--rate", "10000/s", "--objective", "p99<100ms", "--price", "0.17/h"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    for words in ["10,000/s, p99 at most 100 ms", "Rate per instance", "Cost per month", "730", "≤ 5"] {
        assert!(said.contains(words), "no {words:?} in\n{said}");
    }
}

#[test]
fn the_objective_of_the_run_is_the_default() {
    let folder = filled();
    let own = json(&size(folder.path(), &["--rate", "10000/s", "--json"]));
    let given =
        json(&size(folder.path(), &["--rate", "10000/s", "--objective", "p99<20ms,errors<0.1%", "--json"]));
    assert_eq!(own["offers"], given["offers"]);
    assert_eq!(own["demand"]["bounds"], Value::Null);
}

#[test]
fn a_real_run_is_sized() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let scenario = format!(
        "name: sized\ngateways: [weir]\nlimits: {{ data: {{ cpus: 0.5, memory: 256MiB }} }}\n\
         topology: {{ domains: 1, paths: [/ping] }}\norigin: {{ body: 64B }}\n\
         loads:\n  low: {{ model: open, rate: 250/s, spacing: even }}\n  \
         high: {{ model: open, rate: 2500/s, spacing: even }}\n\
         warmup: 100ms\nduration: 400ms\nrepeats: 3\nobjective: {{ p99: 1h, errors: 100% }}\n{ANYTHING_COUNTS}"
    );
    std::fs::write(folder.path().join("sized.yaml"), scenario).unwrap();
    // On a busy host, such a short phase sometimes gets the reason `implausible`, which no threshold can disable. So
    // the test repeats the run at most twice.
    let is_whole = |attempt: u32| {
        let output = finish(weir(folder.path(), &["run", "sized.yaml", "--db", "weir.db", "--out", "out"]));
        println!("attempt {attempt}: {}{}", text(&output.stdout), text(&output.stderr));
        output.status.success()
    };
    assert!((1..=3).any(is_whole), "no run without errors in three attempts");
    let output = size(folder.path(), &["--rate", "10000/s", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let sizing = json(&output);
    let offer = &sizing["offers"][0];
    assert_eq!(
        (&offer["basis"], &offer["rate_per_s"]["value"]),
        (&"at-least".into(), &value!(2_500.0)),
        "{offer}"
    );
    assert_eq!(offer["instances"]["value"], 4, "{offer}");
    assert!(
        std::fs::read_to_string(folder.path().join("out/report.html")).unwrap().contains("id=\"sizing\"")
    );
}

#[test]
fn invalid_arguments_are_rejected() {
    let folder = filled();
    let check = |arguments: &[&str], words: &[&str]| {
        let output = finish(weir(folder.path(), &[&["size"], arguments].concat()));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert_eq!(error.lines().filter(|line| line.starts_with("error")).count(), 1, "one error: {error}");
        for word in words {
            assert!(error.contains(word), "{arguments:?}: no {word:?} in {error}");
        }
    };
    let here = |arguments: &[&str], words: &[&str]| {
        check(&[&["last", "--db", "weir.db"], arguments].concat(), words);
    };
    here(&[], &["--rate"]);
    here(&["--rate", "0/s"], &["--rate", "not above zero"]);
    here(&["--rate", "10000"], &["--rate", "5000/s"]);
    let rated = |arguments: &[&str], words: &[&str]| here(&[&["--rate", "1/s"], arguments].concat(), words);
    rated(&["--objective", "p97<20ms"], &["p97", "did you mean `p98`?"]);
    rated(&["--objective", "p99"], &["--objective 'p99'", "p99<20ms"]);
    rated(&["--objective", "p99<0s"], &["the latency is zero"]);
    rated(&["--max-cpu", "0%"], &["--max-cpu", "65%"]);
    rated(&["--max-cpu", "120%"], &["--max-cpu", "more than 100%"]);
    rated(&["--price", "0.17"], &["--price", "0.17/h"]);
    rated(&["--growth", "30%"], &["--growth", "30%/y"]);
    rated(&["--spare=-1"], &["--spare"]);
    rated(&["--extrapolate"], &["--max-cpu"]);
    check(&["nosuchrun", "--db", "weir.db", "--rate", "1/s"], &["nosuchrun"]);
    check(&["last", "--db", "absent.db", "--rate", "1/s"], &["absent.db"]);
}

#[test]
fn a_run_without_an_objective_requires_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let import = finish(weir(folder.path(), &["import", FIXTURE, "--db", "weir.db"]));
    assert!(import.status.success(), "{}", text(&import.stderr));
    let mut store = Store::open(&folder.path().join("weir.db")).unwrap();
    let id = store.find("last").unwrap();
    let (mut run, cells) = (store.run(&id).unwrap(), store.cells(&id).unwrap());
    run.id = format!("{}x", run.id);
    run.started_unix_ms += 1;
    run.objective = None;
    store.begin_run(&run).unwrap();
    cells.iter().for_each(|cell| store.add_cell(&run.id, cell).unwrap());
    drop(store);
    let output = finish(weir(folder.path(), &["size", &run.id, "--db", "weir.db", "--rate", "5/s"]));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("no objective for") && error.contains("--objective 'p99<20ms'"), "{error}");
}

#[test]
fn the_commands_of_the_docs_work() {
    let folder = filled();
    let pages = blocks("sizing.md");
    let commands = pages.iter().filter(|block| block.language.is_empty());
    let lines: Vec<&str> = commands.flat_map(|block| block.text.lines()).collect();
    assert!(lines.len() >= 2, "{lines:?}");
    for line in lines {
        let arguments = line.strip_prefix("weir ").unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {} {arguments} --db weir.db", env!("CARGO_BIN_EXE_weir"))]);
        shell.current_dir(folder.path());
        let output = finish(shell);
        assert_eq!(output.status.code(), Some(1), "nginx has no answer: {line}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("10,000/s, p99 at most 20.0 ms"), "{line}");
    }
    let tutorial = blocks("how-many-instances.md");
    let scenario = tutorial.iter().find(|block| block.language == "yaml").unwrap();
    std::fs::write(folder.path().join("sizing.yaml"), &scenario.text).unwrap();
    let output = finish(weir(folder.path(), &["run", "sizing.yaml", "--plan"]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
