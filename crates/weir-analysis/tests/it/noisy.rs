//! Headlines whose intervals are wider than the scenario allows.

use weir_analysis::{Figure, Noise, Summary, host_noise, summarize};
use weir_results::{AgentMachine, CellOutcome, DIRECT, HostShare, Reason, ShardResult};

use crate::runs::{plan, run};
use crate::summarized::undisturbed;

/// A valid run. Its confidence intervals extend 2.5 % to each side of the mean for throughput and CPU per request, and
/// at most 1.3 % for latency.
fn summary(interval_share: Option<f64>) -> Summary {
    let cells = undisturbed();
    let mut run = plan(run(&["weir", "nginx"], None), &cells);
    run.thresholds.interval_share = interval_share;
    summarize(&run, &cells)
}

/// Conclusions of a load point.
fn conclusions(summary: &Summary, point: usize) -> String {
    summary.points[point].conclusions.join("\n")
}

#[test]
fn allowed_intervals_change_nothing() {
    assert_eq!(summary(Some(0.026)), summary(None));
    assert_eq!(summary(Some(0.026)).problems(), [] as [String; 0]);
}

#[test]
fn a_noisy_headline_is_excluded_and_reported_with_its_values() {
    let summary = summary(Some(0.02));
    let [full, tail] = &summary.points[..] else { panic!("two loads") };
    let weir = &full.rows[0];
    for figure in [&weir.throughput_per_s, &weir.cpu_us_per_request] {
        assert!(!figure.headline && !figure.is_valid());
        assert_eq!((figure.valid, figure.reasons()), (3, vec![(Reason::Noisy, 3)]), "every repeat is valid");
        let Some(Noise { reach, allowed }) = figure.noise else { panic!("it is noisy") };
        assert!((reach - 0.02516).abs() < 1e-4 && allowed == 0.02, "{reach}");
    }
    assert!(weir.memory_bytes_peak.headline, "it is the same in all repeats");
    assert!(weir.ratio_to_direct.as_ref().unwrap().ratio.headline, "direct varies in the same way");
    let direct = full.rows.iter().find(|row| row.gateway == DIRECT).unwrap();
    assert!(direct.noisy.is_empty() && direct.throughput_per_s.noise.is_none(), "it has no headlines");
    assert!(tail.rows.iter().all(|row| row.noisy.is_empty()));
    assert!(tail.rows[0].latency("p99").unwrap().headline);

    let uncertain = "throughput 49,998/s [48,772 .. 51,256] is uncertain by 2.52 % of the mean (allowed: 2.00 %), \
                     CPU per request 19.8 µs [19.3 .. 20.3] is uncertain by 2.52 % of the mean (allowed: 2.00 %)";
    assert_eq!(summary.problems().len(), 2, "{:?}", summary.problems());
    assert_eq!(summary.problems()[0], format!("full (closed, 10 connections): weir: noisy: {uncertain}"));
    let said = conclusions(&summary, 0);
    assert!(!said.contains("had the highest throughput") && !said.contains("CPU time"), "{said}");
    assert!(said.contains(&format!("No conclusion from noisy values. weir: {uncertain}; nginx: ")), "{said}");
    assert!(!said.contains("three valid repeats"), "there are three: {said}");
    assert!(conclusions(&summary, 1).contains("weir had the lowest p99 latency"));
}

#[test]
fn added_latency_is_measured_against_the_whole() {
    // The added latency is 101 us [98.5 .. 103]. The interval reaches 2.5 us from the mean: 2.5 % of the added latency,
    // but only 1.2 % of the gateway's total latency of 201 us.
    let added = |summary: &Summary| -> Figure {
        let row = &summary.points[1].rows[0];
        row.added_latency_ns.iter().find(|(name, _)| name == "p50").unwrap().1.clone()
    };
    assert!(added(&summary(Some(0.0125))).headline);
    let summary = summary(Some(0.012));
    assert!(!added(&summary).headline);
    let problem = summary.problems().into_iter().find(|problem| problem.contains("added p50")).unwrap();
    assert!(
        problem.contains("added p50 101 µs [98.5 .. 103] is uncertain by 1.24 % of the total latency"),
        "{problem}"
    );
}

#[test]
fn noisy_quantiles_without_conclusions_are_marked_and_no_problem() {
    let summary = summary(Some(0.001));
    let weir = &summary.points[1].rows[0];
    assert!(weir.latency_ns.iter().all(|(_, figure)| figure.noise.is_some() && !figure.headline));
    let said = weir.noisy.join(" ");
    assert!(said.contains("p50 ") && said.contains("p99 ") && !said.contains("p90 "), "{said}");
}

#[test]
fn noise_on_the_machine_of_an_agent_is_not_attributed_to_this_host() {
    let mut cells = undisturbed();
    let CellOutcome::Measured { measurements } = &mut cells[0].outcome else { panic!("measured") };
    let load = &mut measurements[0];
    load.judgement.verdicts.latency = vec![Reason::HostNoise];
    load.host = HostShare { steal: 0.0, others: 0.01, idle: 0.5 };
    let mut shard = ShardResult::of("b", &load.record, 0, 0);
    // No single process was busy.
    let share = Some(HostShare { steal: 0.0, others: 0.1, idle: 0.6 });
    shard.machine = Some(AgentMachine { share, ..AgentMachine::default() });
    load.record.shards = vec![shard];
    let said = host_noise(&cells, 0.02).unwrap();
    assert!(said.starts_with("host noise on the machines of b disturbed 1 measurement. "), "{said}");
}
