//! Whether the size of a control plane matters: compared values and conclusions.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use weir_analysis::findings::{Finding, Row, Table, Value};
use weir_analysis::sizing::{Outcome, instance_types, size as size_for};
use weir_analysis::{Evidence, PartUse, Sample, Summary, data_usage, judge, summarize};
use weir_results::{
    BoundBy, Bounds, Cell, CellOutcome, Measurement, Part, Reason, Role, Run, Thresholds, UsageSecond,
};

use crate::records::usage;
use crate::runs::{Load, cell, excluded_as_before_0_2, failed, full, plan, run, tail};
use crate::sizing::demand;

const RATE_PER_S: f64 = 20_000.0;
const P50_NS: f64 = 400_000.0;

/// A control plane with a limit of `cpus` cores. Relative to the largest size, its throughput is `ratio` and its p50 is
/// 1 / `ratio`. Its repeats vary by `noise`.
#[derive(Clone, Copy)]
struct Size {
    cpus: f64,
    ratio: f64,
    noise: f64,
    /// Number of repeats by which the noise of this size is shifted. Sizes have different shifts, so that the ratios
    /// between sizes vary from repeat to repeat.
    shift: u32,
}

fn size(cpus: f64, ratio: f64) -> Size {
    Size { cpus, ratio, noise: 0.01, shift: (cpus * 10.0).log2() as u32 }
}

/// The factor by which noise changes the values of a repeat.
fn factor(size: Size, repeat: u32) -> f64 {
    let place = (repeat + size.shift) % 5;
    1.0 + size.noise * (f64::from(place) - 2.0) / 2.0
}

/// A closed load and an open one through contour, whose data plane takes 25 µs of CPU time per request.
fn contour(size: Size, repeat: u32) -> Cell {
    let factor = factor(size, repeat);
    let rate_per_s = RATE_PER_S * size.ratio * factor;
    let mut closed = full(rate_per_s as u64);
    closed.name = "users-8";
    closed.data = usage(25e-6 * rate_per_s * factor);
    let mut open = tail((P50_NS * factor / size.ratio) as u64);
    open.data = usage(25e-6 * 5_000.0 * factor);
    let mut cell = cell("contour", repeat, vec![closed, open]);
    cell.key.axes = BTreeMap::from([("limits.control.cpus".to_owned(), json!(size.cpus))]);
    with_control(&mut cell, size.cpus, 0.5 * size.cpus);
    cell
}

/// Adds a control plane with a limit of `cpus` cores that uses `used` of them.
fn with_control(cell: &mut Cell, cpus: f64, used: f64) {
    let data = cell.parts[0].clone();
    let limit_memory_bytes = Some((256.0 * cpus) as u64 * 1_048_576);
    let control = Part { role: Role::Control, limit_cpus: Some(cpus), limit_memory_bytes, ..data };
    cell.parts.insert(0, Part { name: "contour-control".into(), ..control });
    measurements(cell).iter_mut().for_each(|of| {
        let of_limit = weir_results::Usage { cpu_share_of_limit: Some(used / cpus), ..usage(used) };
        of.usage.insert("contour-control".into(), of_limit);
    });
}

fn measurements(cell: &mut Cell) -> &mut Vec<Measurement> {
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    measurements
}

fn cells(sizes: &[Size], repeats: u32) -> Vec<Cell> {
    sizes.iter().flat_map(|size| (0..repeats).map(|repeat| contour(*size, repeat))).collect()
}

fn summary_with(cells: &[Cell], change: impl Fn(&mut Run)) -> Summary {
    let mut run = plan(run(&["weir", "nginx", "contour"], None), cells);
    change(&mut run);
    summarize(&run, cells)
}

fn summary(cells: &[Cell]) -> Summary {
    summary_with(cells, |_| {})
}

fn found(summary: &Summary) -> Option<&Finding> {
    summary.findings.iter().find(|finding| finding.key == "control-size")
}

fn finding(cells: &[Cell]) -> Finding {
    found(&summary(cells)).expect("sizes of a control plane vary").clone()
}

fn table<'a>(finding: &'a Finding, column: &str) -> &'a Table {
    let has = |table: &&Table| table.columns.iter().any(|of| of.key == column);
    finding.tables.iter().find(has).expect("a table with the column")
}

fn value<'a>(table: &'a Table, row: &'a Row, column: &str) -> &'a Value {
    let place = table.columns.iter().position(|of| of.key == column).expect("the column");
    &row.values[place]
}

fn text<'a>(table: &'a Table, row: &'a Row, column: &str) -> &'a str {
    match value(table, row, column) {
        Value::Text { text } => text,
        Value::Missing => "",
        other => panic!("{other:?} is no text"),
    }
}

fn texts<'a>(table: &'a Table, column: &str) -> Vec<&'a str> {
    table.rows.iter().map(|row| text(table, row, column)).collect()
}

/// Checks the verdicts on throughput, p50 and CPU time, each from the smallest size to the largest.
#[track_caller]
fn check_verdicts(finding: &Finding, expected: [&[&str]; 3]) {
    let tables = ["throughput", "p50", "cpu_per_request"].map(|column| table(finding, column));
    assert_eq!(tables.map(|table| texts(table, "verdict")), expected.map(<[&str]>::to_vec));
}

#[test]
fn sizes_within_the_margin_of_the_largest_do_not_matter() {
    let finding = finding(&cells(&[size(0.1, 0.99), size(0.5, 1.01), size(1.0, 1.0)], 8));
    let same = "same within 10 %";
    let cost = "same within 5 %";
    check_verdicts(&finding, [&[same, same, ""], &[same, same, ""], &[cost, cost, "", cost, cost, ""]]);
    assert_eq!(
        finding.sentences,
        [
            "The size of the control plane does not matter for contour: with 0.1 cores and 0.5 cores, throughput at \
        users-8 is the same as with 1 core (within 10 %); p50 latency at tail is the same (within 10 %); CPU time per \
        request at users-8 and tail is the same (within 5 %)."
        ]
    );
    let table = table(&finding, "throughput");
    assert_eq!(texts(table, "limits.control"), ["0.1 cores", "0.5 cores", "1 core"]);
    let Value::Estimate { sample: Sample::Value(ratio), interval: Some([low, high]), .. } =
        value(table, &table.rows[0], "ratio")
    else {
        panic!("a ratio with its interval")
    };
    assert!((ratio - 0.99).abs() < 0.005 && 0.95 < *low && low < ratio && ratio < high && *high < 1.03);
    assert_eq!(
        value(table, &table.rows[2], "ratio"),
        &Value::Missing,
        "the largest is what others are compared with"
    );
}

#[test]
fn rows_have_the_use_of_the_control_plane_and_not_of_the_data_plane() {
    let finding = finding(&cells(&[size(0.1, 1.0), size(1.0, 1.0)], 3));
    let table = table(&finding, "throughput");
    let numbers = |column: &str| -> Vec<f64> {
        table.rows.iter().map(|row| value(table, row, column).as_number().unwrap()).collect()
    };
    let near = |of: Vec<f64>, expected: [f64; 2]| {
        assert!(of.iter().zip(expected).all(|(of, expected)| (of - expected).abs() < 1e-9), "{of:?}");
    };
    near(numbers("control_cores"), [0.05, 0.5]);
    near(numbers("control_share_of_limit"), [0.5, 0.5]);
}

#[test]
fn a_size_that_reduces_throughput_matters() {
    let sizes = [size(0.1, 0.7), size(0.5, 1.0), size(1.0, 1.0)];
    let finding = finding(&cells(&sizes, 8));
    let (same, cost) = ("same within 10 %", "same within 5 %");
    check_verdicts(
        &finding,
        [&["matters", same, ""], &["matters", same, ""], &[cost, cost, "", cost, cost, ""]],
    );
    let said = &finding.sentences[0];
    let begins = "The size of the control plane matters for contour: with 0.1 cores, throughput at users-8 is 0.698 (0.681";
    assert!(said.starts_with(begins), "{said}");
    assert!(
        said.contains(" times the value with 1 core; with 0.1 cores, p50 latency at tail is 1.4"),
        "{said}"
    );
    assert!(
        said.contains(
            ". Otherwise, with 0.5 cores, throughput at users-8 is the same as with 1 core (within 10 %); "
        ),
        "{said}"
    );
    // If a smaller size is faster, the size matters too.
    let inverse = self::finding(&cells(&[size(0.1, 1.4), size(1.0, 1.0)], 8));
    assert_eq!(texts(table(&inverse, "throughput"), "verdict"), ["matters", ""]);
}

#[test]
fn a_difference_needs_six_repeats() {
    let sizes = [Size { noise: 0.001, ..size(0.1, 0.7) }, Size { noise: 0.001, ..size(1.0, 1.0) }];
    let check = |repeats: u32, expected: &str| {
        let finding = finding(&cells(&sizes, repeats));
        assert_eq!(texts(table(&finding, "throughput"), "verdict")[0], expected, "{repeats} repeats");
        finding
    };
    check(6, "matters");
    let five = check(5, "undecided");
    let why = "throughput at users-8 with 0.1 cores (the interval lies beyond the margin, but weir reports a \
        difference only with at least 6 valid repeats)";
    assert!(five.sentences[0].contains(why), "{}", five.sentences[0]);
    assert!(five.sentences[0].ends_with("a decision needs about 6 repeats."), "{}", five.sentences[0]);
}

#[test]
fn fewer_than_three_valid_repeats_have_rows_and_no_conclusion() {
    let quiet = |cpus| Size { noise: 0.000_4, ..size(cpus, 1.0) };
    let sizes = [quiet(0.1), quiet(1.0)];
    let verdicts = |cells: &[Cell]| {
        let finding = finding(cells);
        let table = table(&finding, "throughput");
        assert_eq!(table.rows.len(), 2);
        (texts(table, "verdict")[0].to_owned(), finding.sentences[0].clone())
    };
    // Three repeats are enough for a verdict here. So two repeats are undecided only because they are too few.
    assert_eq!(verdicts(&cells(&sizes, 3)).0, "same within 10 %");
    let (verdict, said) = verdicts(&cells(&sizes, 2));
    assert_eq!(verdict, "undecided");
    assert!(
        said.starts_with("It is undecided whether the size of the control plane matters for contour: "),
        "{said}"
    );
    assert!(said.contains("(3 repeats must be valid with both sizes, but only 2 are)"), "{said}");
    let mut excluded = cells(&sizes, 3);
    measurements(&mut excluded[5]).iter_mut().for_each(|of| {
        excluded_as_before_0_2(&mut of.judgement, Reason::HostNoise);
    });
    let (verdict, said) = verdicts(&excluded);
    assert_eq!(verdict, "undecided");
    assert!(
        said.contains("(3 repeats must be valid with both sizes, but only 2 are; reasons: host-noise)"),
        "{said}"
    );
}

#[test]
fn a_noisy_size_is_undecided_with_a_forecast_of_repeats() {
    let noisy = |cpus, ratio| Size { noise: 0.1, ..size(cpus, ratio) };
    let check = |repeats: u32| {
        let finding = finding(&cells(&[noisy(0.1, 1.0), noisy(1.0, 1.0)], repeats));
        let table = table(&finding, "throughput");
        let verdict = texts(table, "verdict")[0].to_owned();
        let repeats = value(table, &table.rows[0], "repeats_to_decide").as_number();
        let detectable = value(table, &table.rows[0], "detectable").as_number().unwrap();
        (verdict, repeats, detectable, finding.sentences[0].clone())
    };
    let (verdict, repeats, detectable, said) = check(6);
    assert_eq!(verdict, "undecided");
    assert!(said.contains("users-8 with 0.1 cores (the interval crosses the margin of 10 %)"), "{said}");
    assert!(said.contains("This run can detect differences of "), "{said}");
    let repeats = repeats.expect("a forecast");
    assert!((20.0..100.0).contains(&repeats), "{repeats}");
    assert!(detectable > 0.3, "{detectable}");
    // The forecast is right: the predicted number of repeats gives a verdict, and a third of this number does not.
    assert_eq!(check(repeats as u32 / 3).0, "undecided");
    assert_eq!(check(repeats as u32).0, "same within 10 %");
}

#[test]
fn a_conclusion_on_throughput_does_not_need_cpu_time() {
    let mut cells = cells(&[size(0.1, 1.0), size(1.0, 1.0)], 8);
    for (place, cell) in cells.iter_mut().enumerate() {
        let factor = 1.0 + 0.15 * ((place % 3) as f64 - 1.0);
        measurements(cell).iter_mut().for_each(|of| *of.cpu_us_per_request.as_mut().unwrap() *= factor);
    }
    let said = &finding(&cells).sentences[0];
    let begins = "The size of the control plane does not matter for throughput and p50 latency of contour: with 0.1 \
        cores, ";
    assert!(said.starts_with(begins), "{said}");
    assert!(
        said.contains(". Undecided: CPU time per request at users-8 and tail with 0.1 cores ("),
        "{said}"
    );
}

/// Returns the lower and the upper bound for a value.
type Sides = fn(f64) -> [Option<f64>; 2];

/// Replaces the p50 bounds of the open load, in all repeats in which the control plane has `cpus` cores.
fn bound_p50(cells: &mut [Cell], cpus: f64, bounds: Sides) {
    for cell in cells.iter_mut().filter(|cell| cell.key.axes["limits.control.cpus"] == json!(cpus)) {
        let open = &mut measurements(cell)[1];
        let value = open.record.result.latency_ns.p50.expect("it was measured") as f64;
        let ([low, high], reasons) = (bounds(value), vec![Reason::HostNoise]);
        let known = open.judgement.bounds.get_or_insert_default();
        known.insert("p50".into(), Bounds { low, high, reasons, is_valid: false });
    }
}

#[test]
fn bounds_decide_on_their_strong_side_only() {
    let check = |ratio: f64, bounds: Sides, expected: &str| {
        let mut cells = cells(&[size(0.1, ratio), size(1.0, 1.0)], 8);
        bound_p50(&mut cells, 0.1, bounds);
        let finding = finding(&cells);
        let table = table(&finding, "p50");
        assert_eq!(texts(table, "verdict")[0], expected, "{ratio}");
        value(table, &table.rows[0], "ratio").clone()
    };
    let at_least: Sides = |value| [Some(value), None];
    let at_most: Sides = |value| [None, Some(value)];
    // With `ratio` 0.5, the small control plane has twice the p50 of the largest one.
    let Value::Text { text } = check(0.5, at_least, "matters") else { panic!("a bound in words") };
    assert!(text.starts_with("≥ 1.9"), "{text}");
    check(0.5, at_most, "undecided");
    check(1.0, at_least, "undecided");
    check(1.0, at_most, "undecided");
    check(1.0, |value| [Some(value * 0.99), Some(value * 1.01)], "same within 10 %");
    check(1.0, |value| [Some(value * 0.8), Some(value * 1.01)], "undecided");
}

#[test]
fn requests_without_a_response_matter_beyond_chance() {
    let check = |lost: u32, verdict: &str, words: &str| {
        let mut cells = cells(&[size(0.1, 1.0), size(1.0, 1.0)], 6);
        let small = cells.iter_mut().filter(|cell| cell.key.axes["limits.control.cpus"] == json!(0.1));
        for cell in small.take(lost as usize) {
            let open = &mut measurements(cell)[1];
            open.record.result.latency_ns.p50 = None;
            open.judgement.bounds = None;
        }
        let finding = finding(&cells);
        assert_eq!(texts(table(&finding, "p50"), "verdict")[0], verdict, "{lost} of 6");
        assert!(finding.sentences[0].contains(words), "{}", finding.sentences[0]);
    };
    let words = "p50 latency at tail is > timeout in 5 of 6 repeats (with 1 core: 0 of 6)";
    check(5, "matters", words);
    let words = "tail with 0.1 cores (> timeout in 1 of 6 repeats (with the largest size: 0 of 6))";
    check(1, "undecided", words);
}

#[test]
fn gateways_without_a_control_plane_have_a_sentence_and_no_rows() {
    let others = |gateway: &'static str| {
        let of = move |cpus: f64, repeat| {
            let mut cell = cell(gateway, repeat, vec![full(20_000)]);
            cell.key.axes = BTreeMap::from([("limits.control.cpus".to_owned(), json!(cpus))]);
            cell
        };
        [0.1, 1.0].into_iter().flat_map(move |cpus| (0..3).map(move |repeat| of(cpus, repeat)))
    };
    let mut all = cells(&[size(0.1, 1.0), size(1.0, 1.0)], 3);
    all.extend(others("nginx"));
    let finding = finding(&all);
    assert!(finding.tables.iter().flat_map(|table| &table.rows).all(|row| row.gateway == "contour"));
    assert_eq!(finding.sentences.last().unwrap(), "nginx has no control plane.");
    all.extend(others("weir"));
    assert_eq!(self::finding(&all).sentences.last().unwrap(), "weir and nginx have no control plane.");
    // The parts of a remote gateway are unknown.
    for cell in all.iter_mut().filter(|cell| cell.key.gateway == "nginx") {
        cell.parts[0].limited_by = weir_results::ELSEWHERE.into();
    }
    assert_eq!(self::finding(&all).sentences.last().unwrap(), "weir has no control plane.");
    let alone: Vec<Cell> = others("weir").collect();
    assert_eq!(found(&summary(&alone)), None);
    let one_size = cells(&[size(1.0, 1.0)], 3);
    assert_eq!(found(&summary(&one_size)), None);
    assert!(
        !self::finding(&cells(&[size(0.1, 1.0), size(1.0, 1.0)], 3))
            .sentences
            .join(" ")
            .contains("no control")
    );
}

#[test]
fn cases_are_compared_at_equal_values_of_the_other_axes_only() {
    let case = |cpus: f64, memory: &str, data: f64, ratio: f64| -> Vec<Cell> {
        let with_axes = |repeat| {
            let shift = memory.len() as u32 + (ratio * 5.0) as u32;
            let mut cell = contour(Size { shift, ..size(cpus, ratio) }, repeat);
            let axes: [(&str, Json); 3] = [
                ("limits.control.cpus", json!(cpus)),
                ("limits.control.memory", json!(memory)),
                ("limits.data.cpus", json!(data)),
            ];
            cell.key.axes = axes.map(|(path, value)| (path.to_owned(), value)).into();
            cell.parts[0].limit_memory_bytes =
                Some(memory.trim_end_matches("MiB").parse::<u64>().unwrap() << 20);
            cell
        };
        (0..6).map(with_axes).collect()
    };
    let cells = [
        case(1.0, "1024MiB", 1.0, 1.0),
        case(1.0, "512MiB", 1.0, 0.6),
        case(0.5, "64MiB", 1.0, 1.0),
        case(1.0, "512MiB", 2.0, 1.0),
    ]
    .concat();
    let finding = finding(&cells);
    let table = table(&finding, "throughput");
    assert_eq!(
        texts(table, "limits.control"),
        ["0.5 cores, 64MiB", "1 core, 512MiB", "1 core, 1024MiB", "1 core, 512MiB"],
        "by CPUs, then by memory, at each of the other axes"
    );
    assert_eq!(texts(table, "verdict"), ["same within 10 %", "matters", "", ""]);
    assert_eq!(table.rows[0].place_beside(table.columns), "users-8; limits.data.cpus = 1.0");
    let [first, second] = finding.sentences.as_slice() else { panic!("{:?}", finding.sentences) };
    let begins = "The size of the control plane matters for contour (limits.data.cpus = 1.0): with 1 core, 512MiB, \
        throughput at users-8 is 0.6";
    assert!(first.starts_with(begins), "{first}");
    assert_eq!(
        second,
        "No conclusion about contour (limits.data.cpus = 2.0): only one size of its control plane was measured (1 core, \
        512MiB)."
    );
}

#[test]
fn a_size_as_a_whole_is_an_axis_too() {
    let mut cells = cells(&[size(0.5, 1.0), size(1.0, 1.0)], 3);
    for cell in &mut cells {
        let cpus = cell.key.axes["limits.control.cpus"].clone();
        cell.key.axes =
            BTreeMap::from([("limits.control".to_owned(), json!({ "cpus": cpus, "memory": "1GiB" }))]);
    }
    let finding = finding(&cells);
    let table = table(&finding, "throughput");
    assert_eq!(texts(table, "limits.control"), ["0.5 cores, 1GiB", "1 core, 1GiB"]);
    assert_eq!(table.rows[0].place_beside(table.columns), "users-8");
}

#[test]
fn a_size_whose_cells_failed_is_named() {
    let mut cells = cells(&[size(0.1, 1.0), size(1.0, 1.0)], 6);
    cells.extend((0..6).map(|repeat| {
        let mut cell = failed("contour", repeat);
        cell.key.axes = BTreeMap::from([("limits.control.cpus".to_owned(), json!(0.01))]);
        cell
    }));
    // If only one repeat of a size failed, no sentence reports it: the rows show the missing repeat.
    let mut once = failed("contour", 6);
    once.key.axes = BTreeMap::from([("limits.control.cpus".to_owned(), json!(0.1))]);
    cells.push(once);
    let finding = finding(&cells);
    assert_eq!(
        finding.sentences[1..],
        ["No conclusion about contour with 0.01 cores: all its cells failed."]
    );
    assert_eq!(texts(table(&finding, "throughput"), "limits.control"), ["0.1 cores", "1 core"]);
}

#[test]
fn repeats_that_were_added_after_a_look_widen_the_interval() {
    let cells = cells(&[size(0.1, 1.0), size(1.0, 1.0)], 6);
    let width = |was_added: bool| {
        let summary = summary_with(&cells, |run| run.manifest.repeats_were_added = was_added);
        let table = table(found(&summary).unwrap(), "throughput");
        let Value::Estimate { interval: Some([low, high]), .. } = value(table, &table.rows[0], "ratio")
        else {
            panic!("a ratio with its interval")
        };
        high / low
    };
    assert!(width(true) > 1.02 * width(false));
}

/// Contour with one load, and a saturated control plane with a limit of 0.1 cores.
fn beside_a_busy_control_plane(load: fn() -> Load) -> Vec<Cell> {
    let one = |repeat: u32| {
        let mut cell = cell("contour", repeat, vec![load()]);
        with_control(&mut cell, 0.1, 0.1);
        let second = |t_s: u32| UsageSecond {
            t_s: f64::from(t_s),
            cpu_cores: [("contour", 0.4), ("contour-control", 0.1)]
                .map(|(name, of)| (name.into(), of))
                .into(),
            memory_bytes: BTreeMap::new(),
        };
        measurements(&mut cell)[0].series = (0..3).map(second).collect();
        cell
    };
    (0..3).map(one).collect()
}

fn rounded(value: Option<f64>) -> f64 {
    (value.expect("a value") * 1e6).round() / 1e6
}

#[test]
fn use_of_the_control_plane_is_no_cost_of_the_data_plane() {
    let summary = summary(&beside_a_busy_control_plane(|| Load { data: usage(0.4), ..full(20_000) }));
    let row = &summary.points[0].rows[0];
    assert_eq!([&row.cpu_cores, &row.cpu_share_of_limit].map(|of| rounded(of.mean)), [0.4, 0.4]);
    assert_eq!(rounded(row.cpu_us_per_request.mean), 20.0);
    assert_eq!(rounded(row.memory_bytes_peak.mean), f64::from(15 << 20));
    let range = row.cpu_share_range.expect("a limit and samples");
    assert_eq!((range.least, range.greatest), (0.4, 0.4));
    let of_part = |part: &PartUse| (part.role, rounded(part.cpu_cores), rounded(part.cpu_share_of_limit));
    let parts: Vec<_> = row.parts.iter().map(of_part).collect();
    assert_eq!(parts, [(Role::Control, 0.1, 1.0), (Role::Data, 0.4, 0.4)]);
}

#[test]
fn instances_are_sized_by_the_limit_of_the_data_plane() {
    let cells = beside_a_busy_control_plane(|| Load { data: usage(0.4), ..tail(400_000) });
    let run = plan(run(&["contour"], None), &cells);
    let summary = summarize(&run, &cells);
    assert_eq!(instance_types(&run, &summary)[0].cores, Some(1.0));
    let Outcome::Sized(sized) = size_for(&run, &summary, demand(10_000.0)).offers.remove(0).outcome else {
        panic!("an answer")
    };
    assert_eq!(rounded(sized.cpu_share), 0.4);
}

#[test]
fn an_idle_control_plane_does_not_hide_a_saturated_data_plane() {
    let mut cell = cell("contour", 0, vec![full(20_000)]);
    with_control(&mut cell, 1.0, 0.01);
    let measurement = &measurements(&mut cell)[0].clone();
    let data = data_usage(&cell.parts, &measurement.usage);
    let evidence = Evidence {
        record: &measurement.record,
        data: data.as_ref(),
        origin: None,
        generator: None,
        counters: None,
        host: Some(&measurement.host),
        host_cores: 2,
        busiest: &[],
        limits_applied: true,
        loopback_floor_ns: None,
        ceiling: None,
        is_steady: true,
        errors_max: None,
    };
    assert_eq!(judge(&evidence, &Thresholds::default()).bound_by, BoundBy::Gateway);
}
