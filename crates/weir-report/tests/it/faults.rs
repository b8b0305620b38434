//! Faults in every format: a table of the periods between faults, sentences about them, and charts of values per
//! second.

use weir_analysis::findings::FindingObjective;
use weir_analysis::{Met, Outcome, Summary, summarize};
use weir_results::{Cell, CellOutcome, FaultAction, FaultEvent, FaultTarget, Objective, Run};

use crate::fixture::{self, Scene};

/// The good run with faults in the open load. A server is killed at 5.2 s and returns at 9.1 s. From 5 s to 9 s,
/// 100 requests per second have an unexpected status.
fn faulted() -> (Run, Vec<Cell>, Summary) {
    let (run, mut cells) = fixture::run(Scene::Good, &[0.5]);
    for cell in cells.iter_mut().filter(|cell| cell.key.gateway != "direct") {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        let fault = |t_s, action| FaultEvent {
            t_s,
            sustained: true,
            target: FaultTarget::Replica(3),
            action,
            took_ns: 9_000_000,
        };
        measurements[1].faults = vec![fault(5.2, FaultAction::Kill), fault(9.1, FaultAction::Return)];
        measurements[1].record.seconds[5..9].iter_mut().for_each(|second| second.unexpected = 100);
    }
    let summary = summarize(&run, &cells);
    (run, cells, summary)
}

#[test]
fn faults_have_their_table_sentences_and_pictures() {
    let (run, cells, summary) = faulted();
    let folder = tempfile::tempdir().unwrap();
    let written = weir_report::write(&run, &cells, &summary, folder.path()).unwrap();
    let markdown = std::fs::read_to_string(&written.markdown).unwrap();
    for words in [
        "## Faults",
        "Between faults: tail",
        "replica 3 killed",
        "weir: 1,200 of 150,000 requests of load `tail` failed. Before the first fault: 0 of 45,000; replica 3 killed: \
        1,200 of 60,000, with errors until the end of this stage; replica 3 returned: 0 of 45,000.",
    ] {
        assert!(markdown.contains(words), "no `{words}` in {markdown}");
    }
    for chart in ["failover-wrong-tail", "failover-latency-tail"] {
        let svg = std::fs::read_to_string(folder.path().join(format!("charts/{chart}.svg"))).unwrap();
        for words in ["killed", "returned", "weir", "haproxy"] {
            assert!(svg.contains(words), "no `{words}` in {chart}");
        }
    }
    let html = std::fs::read_to_string(&written.html).unwrap();
    let place = |words: &str| html.find(words).unwrap_or_else(|| panic!("no `{words}` in the page"));
    assert!(place("id=\"failover\"") < place("id=\"failover-wrong-tail\""));
    assert!(place("id=\"failover-latency-tail\"") < place("id=\"point-0\""), "the charts are in its section");
}

#[test]
fn the_time_to_recover_is_a_finding_in_every_format() {
    let (run, mut cells, _) = faulted();
    for cell in &mut cells {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        measurements[1].record.seconds[5..].iter_mut().for_each(|second| second.unexpected = 100);
    }
    let summary = summarize(&run, &cells);
    let folder = tempfile::tempdir().unwrap();
    let written = weir_report::write(&run, &cells, &summary, folder.path()).unwrap();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    // The errors continue until the end, so no gateway recovers.
    let (markdown, html) = (read(written.markdown), read(written.html));
    for words in ["## Recovery after faults", "not recovered"] {
        assert!(markdown.contains(words), "no `{words}` in {markdown}");
    }
    assert!(html.contains("<section id=\"recovery\">"));
    let csv = read(folder.path().join("findings.csv"));
    let header = "finding,gateway,load,axis.fault,axis.from,value_of,unit,better,value,low,high,\
                  repeats_valid,repeats,text";
    assert_eq!(csv.lines().next().unwrap(), header);
    let row = "recovery,weir,tail,1: replica 3 killed,,time,s,lower,,,,3,3,not recovered";
    assert!(csv.lines().any(|line| line == row), "{csv}");
    assert!(!folder.path().join("charts/recovery-time-tail.svg").exists(), "there is nothing to draw");
}

#[test]
fn an_objective_of_a_finding_is_judged_in_every_format() {
    let (mut run, mut cells, _) = faulted();
    // Only haproxy has errors until the end; weir recovers.
    let is_stuck = |cell: &&mut Cell| cell.key.gateway == "haproxy";
    for cell in cells.iter_mut().filter(is_stuck) {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        measurements[1].record.seconds[5..].iter_mut().for_each(|second| second.unexpected = 100);
    }
    let limits =
        [("recovery.time", 5.0), ("recovery.errors", 0.001), ("slow-clients.memory_per_client", 1024.0)];
    let limits = limits.map(|(name, limit)| (name.to_owned(), limit));
    run.objective = Some(Objective { findings: limits.into(), ..Objective::default() });
    let summary = summarize(&run, &cells);
    let of = |gateway: &str, name: &str| {
        let is_meant = |of: &&FindingObjective| of.gateway == gateway && of.result.name == name;
        let of: Vec<&FindingObjective> = summary.finding_objectives.iter().filter(is_meant).collect();
        let [of] = of.as_slice() else { panic!("{gateway} has {} results of {name}", of.len()) };
        (of.result.met, of.result.words.clone())
    };
    let met = "recovery.time at most 5.00 s: 3.80 s [3.80 .. 3.80], met";
    assert_eq!(of("weir", "recovery.time"), (Met::Met, met.to_owned()));
    let missed = "recovery.time at most 5.00 s: not recovered, missed";
    assert_eq!(of("haproxy", "recovery.time"), (Met::Missed, missed.to_owned()));
    let errors = "recovery.errors at most 0.100 %: 1.14 %, missed";
    assert_eq!(of("weir", "recovery.errors"), (Met::Missed, errors.to_owned()));
    let unmeasured =
        "slow-clients.memory_per_client at most 1.00 KiB: undecided: the run has no value of this metric";
    assert_eq!(of("weir", "slow-clients.memory_per_client"), (Met::Unknown, unmeasured.to_owned()));
    assert_eq!(summary.outcome, Outcome::Missed);
    let problems = summary.problems();
    let problem = format!("tail; fault = 1: replica 3 killed: haproxy misses the objective: {missed}");
    assert!(problems.contains(&problem.as_str()), "{problems:?}");

    let junit = weir_report::junit(&run, &summary).unwrap();
    let failure = format!("<failure message=\"{missed}\" type=\"objective-missed\">");
    assert_eq!(junit.matches(&failure).count(), 1, "{junit}");
    assert!(junit.contains("<skipped message=\"slow-clients.memory_per_client at most 1.00 KiB"), "{junit}");
    let folder = tempfile::tempdir().unwrap();
    let written = weir_report::write(&run, &cells, &summary, folder.path()).unwrap();
    let markdown = std::fs::read_to_string(written.markdown).unwrap();
    let row = format!("| haproxy | tail; fault = 1: replica 3 killed | {missed} | missed |");
    assert!(markdown.contains(&row), "no `{row}` in {markdown}");
}

#[test]
fn the_time_to_recover_is_drawn() {
    let (run, mut cells, _) = faulted();
    for cell in &mut cells {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        measurements[1].record.seconds[6..9].iter_mut().for_each(|second| second.unexpected = 0);
    }
    let summary = summarize(&run, &cells);
    let folder = tempfile::tempdir().unwrap();
    let written = weir_report::write(&run, &cells, &summary, folder.path()).unwrap();
    let html = std::fs::read_to_string(written.html).unwrap();
    let charts = std::fs::read_dir(folder.path().join("charts")).unwrap();
    let names: Vec<String> = charts.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let drawn: Vec<&String> = names.iter().filter(|name| name.starts_with("recovery-time-")).collect();
    let [name] = drawn.as_slice() else { panic!("one chart for the only fault: {names:?}") };
    assert!(html.contains(&format!("href=\"charts/{name}\"")));
    let svg = std::fs::read_to_string(folder.path().join("charts").join(name)).unwrap();
    for words in ["Recovered within", "weir", "haproxy"] {
        assert!(svg.contains(words), "no `{words}` in {svg}");
    }
}

#[test]
fn a_terminal_has_the_section_too() {
    let (run, cells, summary) = faulted();
    let text = weir_report::terminal(&run, &cells, &summary, 120, false);
    assert!(text.contains("Faults") && text.contains("replica 3 killed"), "{text}");
}
