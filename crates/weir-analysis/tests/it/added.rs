//! The second direct baseline, added latency compared with the bias of the rig, and the cost of authentication.

use serde_json::Value;
use weir_analysis::{AddedLatency, Claim, Sample, Side, Summary, summarize};
use weir_results::{Cell, CellOutcome, DIRECT, DIRECT_TWIN, Reason};

use crate::runs::{cell, plan, run, tail};

const GATEWAYS: [&str; 2] = ["weir", "nginx"];

/// Three repeats of each gateway and of both direct cells, with the axis `topology.tls` set to `tls`. Each median is
/// 100 µs plus an offset in nanoseconds: from `twin` for the second direct cell, from `medians` for all other cells.
/// For weir, the offset is increased by `more`.
fn block(tls: bool, more: u64, twin: [u64; 3]) -> Vec<Cell> {
    let mut cells = Vec::new();
    let medians = [
        ("weir", [50_000, 51_000, 52_000]),
        ("nginx", [2_200, 2_250, 2_300]),
        (DIRECT, [0; 3]),
        (DIRECT_TWIN, twin),
    ];
    for (gateway, over) in medians {
        let more = if gateway == "weir" { more } else { 0 };
        for (repeat, over) in over.into_iter().enumerate() {
            let mut cell = cell(gateway, repeat as u32, vec![tail(100_000 + over + more)]);
            cell.key.axes.insert("topology.tls".into(), Value::Bool(tls));
            cells.push(cell);
        }
    }
    cells
}

fn summary(cells: &[Cell]) -> Summary {
    summarize(&plan(run(&GATEWAYS, None), cells), cells)
}

fn added(summary: &Summary) -> &AddedLatency {
    summary.added.as_ref().expect("an added latency")
}

/// Two direct cells that differ significantly, by 2.1 µs.
const APART: [u64; 3] = [2_000, 2_100, 2_200];
/// The intervals of the difference between these two direct cells include zero.
const ALIKE: [u64; 3] = [1_000, 2_000, 3_000];

#[test]
fn the_second_direct_baseline_is_no_gateway_and_has_no_row() {
    let summary = summary(&block(false, 0, ALIKE));
    let names: Vec<&str> = summary.points[0].rows.iter().map(|row| row.gateway.as_str()).collect();
    assert_eq!(names, ["weir", "nginx", DIRECT]);
    let names: Vec<&str> = summary.gateways.iter().map(|gateway| gateway.name.as_str()).collect();
    assert_eq!(names, ["weir", "nginx", DIRECT]);
    assert_eq!(summary.problems(), [] as [String; 0]);
    assert_eq!(summary.cells_measured, 12, "its cells are counted");
}

#[test]
fn a_difference_is_significant_beyond_zero_and_the_bias_of_the_rig() {
    let apart = summary(&block(false, 0, APART));
    let point = &apart.points[0];
    let bias = point.bias.as_ref().unwrap();
    let [low, high] = bias.difference("p50").unwrap().interval.unwrap();
    // The mean is 2.1 µs, the standard deviation 0.1 µs, and t(2) 4.3027.
    assert!((low - 1_851.6).abs() < 0.1 && (high - 2_348.4).abs() < 0.1, "{low} {high}");
    assert_eq!(bias.least_ns("p50"), Some(high));
    let claim = |row: usize| {
        let (_, figure) = point.rows[row].added_latency_ns.iter().find(|(name, _)| name == "p50").unwrap();
        bias.claim("p50", figure)
    };
    assert_eq!((claim(0), claim(1)), (Claim::Significant, Claim::WithinBias));
    let said = point.conclusions.join("\n");
    assert!(said.contains("weir adds 51.0 µs [48.5 .. 53.5] at p50"), "{said}");
    assert!(said.contains("nginx adds no significant latency at p50 (2.25 µs"), "{said}");
    assert!(!said.contains("Added latency"), "{said}");
    assert!(
        added(&apart).conclusions[0].starts_with("The rig is biased. "),
        "{:?}",
        added(&apart).conclusions
    );

    let alike = summary(&block(false, 0, ALIKE));
    let said = alike.points[0].conclusions.join("\n");
    assert!(said.contains("nginx adds 2.25 µs [2.13 .. 2.37] at p50"), "{said}");
    assert!(
        added(&alike).conclusions[0].contains("The rig shows no bias"),
        "{:?}",
        added(&alike).conclusions
    );
}

#[test]
fn without_a_second_direct_baseline_there_is_no_bias() {
    let mut cells = block(false, 0, ALIKE);
    cells.retain(|cell| cell.key.gateway != DIRECT_TWIN);
    let summary = summary(&cells);
    assert!(summary.added.is_none() && summary.points[0].bias.is_none());
    let said = summary.points[0].conclusions.join("\n");
    assert!(said.contains("Added latency: weir 51.0 µs"), "{said}");
}

#[test]
fn the_cost_of_authentication_is_a_difference_in_the_same_repeat() {
    let cells = [block(false, 0, ALIKE), block(true, 8_000, ALIKE)].concat();
    let summary = summary(&cells);
    let [cost] = &added(&summary).costs[..] else { panic!("{:?}", added(&summary).costs) };
    assert_eq!((cost.authentication.as_str(), cost.load.as_str()), ("TLS", "tail"));
    assert!(cost.axes.is_empty());
    let names: Vec<&str> = cost.rows.iter().map(|row| row.gateway.as_str()).collect();
    assert_eq!(names, ["weir", "nginx", DIRECT]);
    let more = |row: usize| {
        let (_, figure) = cost.rows[row].more_ns.iter().find(|(name, _)| name == "p50").unwrap();
        figure.mean.unwrap()
    };
    assert!((more(0) - 8_000.0).abs() < 1e-6 && more(1).abs() < 1e-6);
    let said = cost.conclusion.as_deref().unwrap();
    assert_eq!(
        said,
        "tail at 5,000/s, p50: TLS costs weir 8.00 µs [8.00 .. 8.00] more; TLS has no measurable cost for nginx."
    );
}

#[test]
fn every_repeat_is_a_row_with_request_counts_of_gateway_and_upstream() {
    let mut cells = block(false, 0, ALIKE);
    let CellOutcome::Measured { measurements } = &mut cells[0].outcome else { panic!("it was measured") };
    // The upstream gets two requests per client request. The slowest requests get no response, so there is no maximum
    // latency.
    measurements[0].counters.origin_requests = Some(measurements[0].counters.generator_sent * 2);
    measurements[0].record.result.latency_ns.max = None;
    let summary = summary(&cells);
    let rows = &added(&summary).repeats;
    let who: Vec<(&str, u32)> = rows.iter().map(|row| (row.gateway.as_str(), row.repeat)).collect();
    let all = ["weir", "nginx", DIRECT, DIRECT_TWIN].iter().flat_map(|name| (0..3).map(move |n| (*name, n)));
    assert_eq!(who, all.collect::<Vec<_>>());
    assert_eq!((rows[0].gateway_per_s, rows[0].upstream_per_s), (Some(5_000.0), Some(10_000.0)));
    assert_eq!((rows[6].gateway_per_s, rows[6].upstream_per_s), (None, Some(5_000.0)));
    let names: Vec<&str> = rows[0].latency_ns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["min", "mean", "p50", "p90", "p95", "p99", "max"]);
    assert_eq!(rows[0].latency_ns[6].1, Sample::BeyondTimeout);
    assert_eq!(rows[0].latency_ns[2].1, Sample::Value(150_000.0));
}

/// Makes the latency of one repeat of a gateway or direct cell invalid.
fn invalidate(cells: &mut [Cell], gateway: &str, repeat: u32, reason: Reason) {
    let is_it = |cell: &&mut Cell| cell.key.gateway == gateway && cell.key.repeat == repeat;
    let cell = cells.iter_mut().find(is_it).expect("a cell");
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    measurements[0].judgement.verdicts.latency.push(reason);
    measurements[0].judgement.bounds = None;
}

#[test]
fn the_reason_of_an_invalid_difference_names_its_cell() {
    let mut cells = block(false, 0, ALIKE);
    invalidate(&mut cells, DIRECT, 1, Reason::GeneratorLimited);
    invalidate(&mut cells, DIRECT_TWIN, 2, Reason::HostNoise);
    invalidate(&mut cells, "nginx", 1, Reason::GeneratorLimited);
    invalidate(&mut cells, "nginx", 1, Reason::Throttled);
    let summary = summary(&cells);
    let point = &summary.points[0];
    let of = |name: &str| point.added_reasons(point.rows.iter().find(|row| row.gateway == name).unwrap());
    assert_eq!(of("weir"), [(Side::Direct, Reason::GeneratorLimited, 1)]);
    // The nginx cell has this reason itself, so the reason is not assigned to the direct cell.
    assert_eq!(of("nginx"), [(Side::Own, Reason::GeneratorLimited, 1), (Side::Own, Reason::Throttled, 1)]);
    assert_eq!(
        point.bias_reasons(),
        [(Side::Own, Reason::HostNoise, 1), (Side::Direct, Reason::GeneratorLimited, 1)]
    );
    let missing = summary.missing_added_latency().unwrap();
    assert_eq!(
        missing,
        format!(
            "because the direct baseline is invalid (generator-limited), added latency has no headline at {}",
            point.words()
        )
    );
    assert!(!summary.problems().iter().any(|problem| problem.contains("weir")), "{:?}", summary.problems());
}

#[test]
fn added_latency_is_not_missing_if_direct_is_valid_or_the_gateway_is_invalid() {
    let mut cells = block(false, 0, ALIKE);
    assert_eq!(summary(&cells).missing_added_latency(), None);
    for gateway in ["weir", "nginx"] {
        invalidate(&mut cells, gateway, 0, Reason::HostNoise);
    }
    invalidate(&mut cells, DIRECT, 1, Reason::GeneratorLimited);
    assert_eq!(summary(&cells).missing_added_latency(), None);
}
