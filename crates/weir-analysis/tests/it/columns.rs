//! Table values that are not headlines: CPU ranges, request counts, minimum and maximum, use of parts.

use std::collections::BTreeMap;

use weir_analysis::{Row, Sample, summarize};
use weir_results::{Cell, CellOutcome, HostShare, LoadSecond, Measurement, NetworkUsage, UsageSecond};

use crate::runs::{Load, cell, full, plan, run, tail};

fn row(cells: &[Cell]) -> Row {
    let summary = summarize(&plan(run(&["weir"], None), cells), cells);
    summary.points[0].rows[0].clone()
}

fn measurement(cell: &mut Cell) -> &mut Measurement {
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
    &mut measurements[0]
}

/// A phase of three seconds after a warm-up of two, sampled second by second.
fn sampled(repeat: u32, load: Load, cores: &[f64]) -> Cell {
    let mut cell = cell("weir", repeat, vec![load]);
    let measurement = measurement(&mut cell);
    measurement.record.result.duration_s = 3.0;
    let second = |t_s: usize| LoadSecond {
        t_s: t_s as f64,
        length_s: 1.0,
        sustained: t_s >= 2,
        sent: 1,
        completed: 1,
        unexpected: 0,
        lost: 0,
        latency: measurement.record.latency.clone(),
    };
    measurement.record.seconds = (0..5).map(second).collect();
    measurement.series = (0..)
        .zip(cores)
        .map(|(t_s, cores)| UsageSecond {
            t_s: f64::from(t_s),
            cpu_cores: BTreeMap::from([("weir".to_owned(), *cores)]),
            memory_bytes: BTreeMap::new(),
        })
        .collect();
    cell
}

fn disturbed(load: Load) -> Load {
    Load { host: HostShare { steal: 0.1, others: 0.0, idle: 0.2 }, ..load }
}

#[test]
fn the_range_of_cpu_is_that_of_whole_seconds_of_the_phase_in_valid_repeats() {
    // Warm-up and drain are excluded; the limit is one core.
    let one = sampled(0, full(20_000), &[0.1, 0.2, 0.93, 0.97, 0.95, 0.01]);
    let other = sampled(1, full(20_000), &[0.1, 0.2, 0.91, 0.94, 0.92, 0.01]);
    let invalid = sampled(2, disturbed(full(20_000)), &[0.1, 0.2, 0.5, 1.5, 0.9, 0.01]);
    let range = row(&[one, other, invalid.clone()]).cpu_share_range.unwrap();
    assert_eq!((range.least, range.greatest, range.counts), (0.91, 0.97, true));
    let range = row(&[invalid]).cpu_share_range.unwrap();
    assert_eq!((range.least, range.greatest, range.counts), (0.5, 1.5, false));
}

#[test]
fn a_phase_without_a_whole_second_counts_with_its_mean_and_one_without_a_limit_not_at_all() {
    let range = row(&[cell("weir", 0, vec![full(20_000)])]).cpu_share_range.unwrap();
    assert_eq!((range.least, range.greatest), (0.99, 0.99));
    let mut unlimited = cell("weir", 0, vec![full(20_000)]);
    unlimited.parts[0].limit_cpus = None;
    assert_eq!(row(&[unlimited]).cpu_share_range, None);
}

#[test]
fn failures_of_an_invalid_repeat_stay_in_the_counts() {
    let mut failing = full(20_000);
    for books in [&mut failing.record.result.requests, &mut failing.record.whole] {
        books.completed -= 5_000;
        books.failed = 5_000;
        books.unexpected = 100;
    }
    let row = row(&[cell("weir", 0, vec![full(20_000)]), cell("weir", 1, vec![failing])]);
    assert_eq!(row.throughput_per_s.valid, 1);
    assert_eq!((row.requests.repeats, row.requests.requests, row.requests.fails), (2, 400_000, 5_100));
    assert_eq!(row.requests.fails_per_s, Some(255.0));
}

#[test]
fn minimum_and_maximum_are_those_of_all_valid_repeats() {
    let cells = [
        cell("weir", 0, vec![tail(300_000)]),
        cell("weir", 1, vec![tail(200_000)]),
        cell("weir", 2, vec![disturbed(tail(9_000_000))]),
    ];
    let row = row(&cells);
    let of = |name: &str| row.latency(name).unwrap();
    assert_eq!(of("min").least(), Sample::Value(100_000.0));
    assert_eq!(of("max").greatest(), Sample::Value(2_400_000.0));
    let mut cut = tail(300_000);
    cut.record.result.latency_ns.max = None;
    let row = self::row(&[cell("weir", 0, vec![cut]), cell("weir", 1, vec![tail(200_000)])]);
    assert_eq!(row.latency("max").unwrap().greatest(), Sample::BeyondTimeout);
    assert_eq!(row.latency("max").unwrap().least(), Sample::Value(1_600_000.0));
}

#[test]
fn use_of_parts_is_per_second_and_missing_if_not_measured() {
    let mut cells = [cell("weir", 0, vec![full(20_000)]), cell("weir", 1, vec![full(20_000)])];
    let usage = measurement(&mut cells[0]).usage.get_mut("weir").unwrap();
    usage.network = Some(NetworkUsage { received_bytes: 5_000, sent_packets: 70, ..NetworkUsage::default() });
    usage.block_written_bytes = Some(20);
    usage.sockets_max = Some(12);
    let part = &row(&cells).parts[0];
    // Phases of ten seconds; the unmeasured repeat does not count as zero.
    assert_eq!(part.network_received_bytes_per_s, Some(500.0));
    assert_eq!(part.network_sent_packets_per_s, Some(7.0));
    assert_eq!(part.block_written_bytes_per_s, Some(2.0));
    assert_eq!((part.block_read_bytes_per_s, part.switches_voluntary_per_s), (None, None));
    assert_eq!(part.sockets_max, Some(12));
    assert_eq!(part.memory_share_of_limit, Some(14.0 / 128.0));
}
