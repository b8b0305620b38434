//! A quantile above p50 is a headline only if at least five seconds, in all repeats together, contain requests slower
//! than the quantile.

use weir_analysis::{Summary, summarize};
use weir_results::{Histogram, LoadSecond, TimesNs, new_histogram};

use crate::runs::{cell, plan, run, tail};

/// Three repeats of ten seconds. In the first `slow` seconds, 2 % of the requests take 50 ms instead of 1 ms.
fn summary(slow: usize) -> Summary {
    let repeat = |repeat: u32| {
        let mut load = tail(1_000_000);
        let mut all = new_histogram();
        let second = |place: usize| {
            let mut latency = new_histogram();
            let late = if place < slow { 200 } else { 0 };
            latency.record_n(1_000_000, 10_000 - late).expect("within the bounds");
            latency.record_n(50_000_000, late).expect("within the bounds");
            latency
        };
        let seconds: Vec<_> = (0..10).map(second).collect();
        seconds.iter().for_each(|second| all.add(second).expect("the same bounds"));
        load.record.result.latency_ns = TimesNs::of(&all, 0);
        load.record.generator.in_flight_mean = None;
        load.record.seconds = seconds
            .iter()
            .enumerate()
            .map(|(place, latency)| LoadSecond {
                t_s: place as f64,
                length_s: 1.0,
                sustained: true,
                sent: 10_000,
                completed: 10_000,
                unexpected: 0,
                lost: 0,
                latency: Histogram::encode(latency),
            })
            .collect();
        cell("weir", repeat, vec![load])
    };
    let cells: Vec<_> = (0..3).map(repeat).collect();
    summarize(&plan(run(&["weir"], None), &cells), &cells)
}

#[test]
fn late_requests_of_one_second_are_one_event() {
    let of = |slow| {
        let summary = summary(slow);
        let point = &summary.points[0];
        let row = &point.rows[0];
        let is_headline = |name: &str| row.latency(name).expect("a latency").headline;
        let said = point.conclusions.iter().find(|sentence| sentence.starts_with("These quantiles")).cloned();
        ([is_headline("p50"), is_headline("p999")], said)
    };
    let said = "These quantiles are no headlines, because fewer than 5 seconds contain slower requests: p99.9 of weir \
                (3 of 30 seconds). Use a longer phase or more repeats.";
    assert_eq!(of(1), ([true, false], Some(said.to_owned())));
    assert_eq!(of(2), ([true, true], None), "six seconds of thirty");
}
