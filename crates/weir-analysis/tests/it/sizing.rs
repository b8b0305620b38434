//! How many instances a demand needs: an example with Gorouter, and each reason for which weir gives no number.

use std::collections::BTreeMap;

use weir_analysis::sizing::{
    Basis, Bound, Count, Demand, InstanceType, Offer, Outcome, Price, PriceOf, RefusedFor, Sized, Sizing,
    Span, instance_types, size,
};
use weir_analysis::summarize;
use weir_results::ArrivalModel::Open;
use weir_results::{Cell, CellOutcome, Found, Objective, OwnObjective, Reason};

use crate::capacity::{found, searched};
use crate::records::{quiet, record, usage};
use crate::runs::{Load, cell, failed, full, plan, run};

/// A measured load point: name, rate, p99 in milliseconds, share of the CPU limit.
type Rate = (&'static str, u64, f64, f64);

/// p99 is below 20 ms at 2,500/s, and above at 5,000/s.
const GOROUTER: [Rate; 3] =
    [("low", 1_000, 5.0, 0.2), ("middle", 2_500, 18.0, 0.5), ("high", 5_000, 60.0, 0.9)];

/// The repeats of a gateway at these rates. Latencies of repeats differ by 1 %.
fn measured(gateway: &str, repeats: u32, rates: &[Rate]) -> Vec<Cell> {
    let one = |repeat: u32| {
        let wobble = 1.0 + 0.01 * (f64::from(repeat % 3) - 1.0);
        let load = |(name, rate_per_s, p99_ms, share): &Rate| {
            // All quantiles of a record are proportional to its median.
            let p50_ns = (p99_ms * 1e6 / 2.5 * wobble) as u64;
            Load { name, record: record(Open, *rate_per_s, p50_ns), data: usage(*share), host: quiet() }
        };
        let mut cell = cell(gateway, repeat, rates.iter().map(load).collect());
        for (measurement, (_, rate_per_s, ..)) in measurements(&mut cell).iter_mut().zip(rates) {
            measurement.rate_per_s = Some(*rate_per_s as f64);
        }
        cell
    };
    (0..repeats).map(one).collect()
}

fn measurements(cell: &mut Cell) -> &mut Vec<weir_results::Measurement> {
    match &mut cell.outcome {
        CellOutcome::Measured { measurements } => measurements,
        CellOutcome::Failed { .. } => panic!("it was measured"),
    }
}

fn p99(limit_ms: f64) -> Option<Vec<Bound>> {
    Some(vec![Bound { name: "p99".into(), limit: limit_ms * 1e6 }])
}

pub(crate) fn demand(rate_per_s: f64) -> Demand {
    Demand {
        rate_per_s,
        bounds: p99(20.0),
        cpu_share_max: None,
        spare: 0,
        price: None,
        growth_per_year: None,
        extrapolate: false,
    }
}

fn sizing(gateways: &[&str], objective: Option<Objective>, cells: &[Cell], demand: Demand) -> Sizing {
    let run = plan(run(gateways, objective), cells);
    size(&run, &summarize(&run, cells), demand)
}

fn offer(cells: &[Cell], demand: Demand) -> Offer {
    let mut offers = sizing(&["weir"], None, cells, demand).offers;
    assert_eq!(offers.len(), 1, "{offers:?}");
    offers.remove(0)
}

#[track_caller]
fn sized(cells: &[Cell], demand: Demand) -> Sized {
    match offer(cells, demand).outcome {
        Outcome::Sized(sized) => *sized,
        Outcome::Refused(refused) => panic!("refused: {refused:?}"),
    }
}

/// Returns why weir gives no number of instances: the reason, and its message with the remedy.
#[track_caller]
fn refused(cells: &[Cell], demand: Demand) -> (RefusedFor, String) {
    match offer(cells, demand).outcome {
        Outcome::Refused(refused) => (refused.why, format!("{}: {}", refused.words, refused.remedy)),
        Outcome::Sized(sized) => panic!("sized: {sized:?}"),
    }
}

fn count(value: u64, low: u64, high: u64) -> Count {
    Count { value, low, high }
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6 * expected.abs(), "{value} is not {expected}");
}

#[test]
fn ten_thousand_a_second_at_twenty_milliseconds_are_four_instances() {
    let answer = sized(&measured("weir", 3, &GOROUTER), demand(10_000.0));
    let Span { value, low, high } = answer.rate_per_s;
    assert_eq!(value, 2_500.0);
    [low, high].into_iter().for_each(|end| near(end, 2_500.0));
    assert_eq!((answer.instances, answer.basis), (count(4, 4, 4), Basis::Measured));
    assert_eq!(
        answer.notes,
        ["next rate not used: at 5,000/s, p99 is 60.0 ms [58.5 .. 61.5], above the limit of 20.0 ms"]
    );
    near(answer.cpu_share.unwrap(), 0.5);
    assert_eq!((answer.cost, answer.later), (None, vec![]));
}

#[test]
fn the_interval_of_the_rate_is_carried_through() {
    let mut cells = measured("weir", 3, &GOROUTER[..2]);
    for (cell, carried_per_s) in cells.iter_mut().zip([2_450.0, 2_500.0, 2_550.0]) {
        measurements(cell)[1].record.result.rate_per_s = carried_per_s;
    }
    let answer = sized(&cells, demand(10_000.0));
    // The geometric mean is 2,499.7. The logarithms have a standard deviation of 0.0200, and t(2) is 4.3027. So the
    // bounds are 2,499.7 / exp(0.0497) and 2,499.7 x exp(0.0497).
    let Span { value, low, high } = answer.rate_per_s;
    assert!((value, low.round(), high.round()) == (2_500.0, 2_378.0, 2_627.0), "{:?}", answer.rate_per_s);
    // 10,000 / 2,627 is 3.8, and 10,000 / 2,378 is 4.2.
    assert_eq!(answer.instances, count(4, 4, 5));
    let with_spare = Demand { spare: 2, ..demand(10_000.0) };
    assert_eq!(sized(&cells, with_spare).instances, count(6, 6, 7));
}

#[test]
fn a_rate_that_was_not_reached_is_replaced_by_the_throughput() {
    let mut cells = measured("weir", 3, &GOROUTER[..2]);
    for cell in &mut cells {
        measurements(cell)[1].record.result.rate_per_s = 2_400.0;
    }
    // The throughput is 4 % below the offered rate. If it were at most 1 % below, weir would use the offered rate.
    let answer = sized(&cells, demand(10_000.0));
    assert_eq!((answer.rate_per_s.value.round(), answer.instances), (2_400.0, count(5, 5, 5)));
}

#[test]
fn costs_are_those_of_a_month_and_growth_is_compounded() {
    let asked = Demand {
        spare: 1,
        price: Some(Price { per_hour: 0.17, of: PriceOf::Instance }),
        growth_per_year: Some(0.3),
        ..demand(10_000.0)
    };
    let answer = sized(&measured("weir", 3, &GOROUTER), asked.clone());
    assert_eq!(answer.instances, count(5, 5, 5));
    let cost = answer.cost.unwrap();
    near(cost.per_month.value, 5.0 * 0.17 * 730.0);
    // 10,000/s for 730 h is 26,280 million requests.
    near(cost.per_million.value, 5.0 * 0.17 * 730.0 / 26_280.0);
    let later: Vec<(u32, f64, Count)> =
        answer.later.iter().map(|later| (later.months, later.rate_per_s.round(), later.instances)).collect();
    // 13,000 / 2,500 is 5.2, and 16,900 / 2,500 is 6.76.
    assert_eq!(later, [(12, 13_000.0, count(7, 7, 7)), (24, 16_900.0, count(8, 8, 8))]);

    // The data plane of these cells is limited to one core.
    let per_core = Demand { price: Some(Price { per_hour: 0.17, of: PriceOf::Core }), ..asked.clone() };
    near(sized(&measured("weir", 3, &GOROUTER), per_core.clone()).cost.unwrap().per_month.value, 620.5);
    let mut unlimited = measured("weir", 3, &GOROUTER);
    unlimited.iter_mut().for_each(|cell| cell.parts[0].limit_cpus = None);
    let answer = sized(&unlimited, per_core);
    assert_eq!(answer.cost, None);
    assert_eq!(answer.notes[1], "no cost: the price is per core, and the instance has no CPU limit");
}

#[test]
fn a_target_below_one_instance_is_one_instance() {
    let answer = sized(&measured("weir", 3, &GOROUTER), demand(500.0));
    assert_eq!(answer.instances, count(1, 1, 1));
    assert_eq!(answer.notes[1], "one instance suffices: the target is 20.0 % of its rate");
    assert_eq!(sized(&measured("weir", 3, &GOROUTER), demand(2_500.0)).instances, count(1, 1, 1));
    assert_eq!(sized(&measured("weir", 3, &GOROUTER), demand(2_500.1)).instances, count(2, 2, 2));
}

#[test]
fn an_objective_met_at_the_highest_rate_gives_a_lower_bound() {
    let answer = sized(&measured("weir", 3, &GOROUTER[..2]), demand(10_000.0));
    assert_eq!((answer.instances, answer.basis), (count(4, 4, 4), Basis::AtLeast));
    assert_eq!(
        answer.notes,
        [
            "objective met at 2,500/s, the highest rate measured: an instance may carry more. `weir run capacity` \
             searches for the maximum"
        ]
    );
}

#[test]
fn an_interval_that_includes_the_limit_is_borderline() {
    let rates = [("low", 1_000, 5.0, 0.2), ("middle", 2_500, 20.0, 0.5), ("high", 5_000, 60.0, 0.9)];
    let answer = sized(&measured("weir", 3, &rates), demand(10_000.0));
    assert_eq!((answer.rate_per_s.value, answer.instances.value), (1_000.0, 10));
    assert_eq!(
        answer.notes,
        [
            "next rate not used: at 2,500/s, p99 is 20.0 ms [19.5 .. 20.5], borderline: the limit of 20.0 ms lies within its interval"
        ]
    );
    let (why, said) = refused(&measured("weir", 3, &rates[1..]), demand(10_000.0));
    assert_eq!(why, RefusedFor::Borderline);
    assert!(said.starts_with("at 2,500/s, the lowest measured rate, p99 is 20.0 ms"), "{said}");
    assert!(said.contains("--repeats"), "{said}");
}

#[test]
fn an_objective_met_above_a_rate_that_misses_it_does_not_count() {
    let rates = [("low", 1_000, 5.0, 0.2), ("middle", 2_500, 60.0, 0.5), ("high", 5_000, 18.0, 0.9)];
    let answer = sized(&measured("weir", 3, &rates), demand(10_000.0));
    assert_eq!((answer.rate_per_s.value, answer.basis), (1_000.0, Basis::Measured));
}

#[test]
fn an_objective_that_is_never_met_is_refused() {
    let (why, said) =
        refused(&measured("weir", 3, &GOROUTER[1..]), Demand { bounds: p99(5.0), ..demand(10_000.0) });
    assert_eq!(why, RefusedFor::NeverMet);
    assert_eq!(
        said,
        "at 2,500/s, the lowest measured rate, p99 is 18.0 ms [17.6 .. 18.5], above the limit of 5.00 ms: \
        measure lower rates, for example 1,250/s"
    );
    // Latency is not extrapolated.
    let asked = Demand { bounds: p99(5.0), cpu_share_max: Some(0.65), extrapolate: true, ..demand(10_000.0) };
    assert_eq!(refused(&measured("weir", 3, &GOROUTER[1..]), asked).0, RefusedFor::NeverMet);
}

#[test]
fn a_cpu_share_limits_the_rate_and_suggests_a_rate_to_measure() {
    let rates = [("low", 1_000, 5.0, 0.2), ("middle", 2_500, 8.0, 0.5), ("high", 4_000, 18.0, 0.8)];
    let cells = measured("weir", 3, &rates);
    let asked = Demand { cpu_share_max: Some(0.65), ..demand(10_000.0) };
    let answer = sized(&cells, asked.clone());
    assert_eq!((answer.rate_per_s.value, answer.basis), (2_500.0, Basis::Measured));
    assert_eq!(
        answer.notes,
        ["next rate not used: at 4,000/s, CPU is 80.0 % [80.0 .. 80.0], above the limit of 65.0 %; measure \
            at about 3,250/s to narrow the gap"]
    );
    // 2,500/s at 50 % of the limit is 5,000/s at 100 %, and 3,250/s at 65 %.
    let answer = sized(&cells, Demand { extrapolate: true, ..asked.clone() });
    near(answer.rate_per_s.value, 3_250.0);
    assert_eq!(
        (answer.basis, answer.cpu_share, answer.instances.value),
        (Basis::Extrapolated, Some(0.65), 4)
    );
    assert!(answer.notes[0].starts_with("extrapolated from 2,500/s, which used 50.0 % of the CPU limit"));

    // The whole interval is above the limit.
    let tight = Demand { cpu_share_max: Some(0.1), ..asked };
    let (why, said) = refused(&cells, tight.clone());
    assert_eq!(why, RefusedFor::CpuAbove);
    assert!(
        said.ends_with(
            "measure lower rates, for example 500/s, or extrapolate by CPU time per request (--extrapolate)"
        ),
        "{said}"
    );
    let answer = sized(&cells, Demand { extrapolate: true, ..tight });
    near(answer.rate_per_s.value, 500.0);
    assert_eq!(answer.basis, Basis::Extrapolated);
}

#[test]
fn nothing_is_extrapolated_past_a_rate_that_misses_the_objective() {
    let asked = Demand { cpu_share_max: Some(1.0), extrapolate: true, ..demand(10_000.0) };
    // 2,500/s at 50 % of the limit would be 5,000/s at 100 %, where latency misses the objective.
    let answer = sized(&measured("weir", 3, &GOROUTER), asked.clone());
    assert_eq!((answer.rate_per_s.value, answer.basis), (2_500.0, Basis::Measured));
    assert_eq!(answer.notes[1], "not extrapolated: it is not certain that the objective is met at 5,000/s");
    // No higher rate is known to miss the objective.
    let answer = sized(&measured("weir", 3, &GOROUTER[..2]), asked);
    near(answer.rate_per_s.value, 5_000.0);
    assert_eq!(answer.basis, Basis::Extrapolated);
}

#[test]
fn without_a_cpu_limit_a_share_of_it_is_not_known() {
    let mut cells = measured("weir", 3, &GOROUTER);
    for cell in &mut cells {
        for measurement in measurements(cell) {
            measurement.usage.get_mut("weir").unwrap().cpu_share_of_limit = None;
        }
    }
    let (why, said) = refused(&cells, Demand { cpu_share_max: Some(0.65), ..demand(10_000.0) });
    assert_eq!(why, RefusedFor::Unknown);
    assert!(
        said.starts_with("at 1,000/s, the lowest measured rate, no valid value for CPU: not measured"),
        "{said}"
    );
    assert_eq!(sized(&cells, demand(10_000.0)).cpu_share, None);
}

#[test]
fn invalid_values_are_not_used_for_sizing() {
    let mut cells = measured("weir", 3, &GOROUTER);
    for cell in &mut cells {
        for measurement in measurements(cell) {
            measurement.judgement.verdicts.latency = vec![Reason::HostNoise];
            measurement.judgement.bounds = None;
        }
    }
    let (why, said) = refused(&cells, demand(10_000.0));
    assert_eq!(why, RefusedFor::Unknown);
    assert!(said.contains("no valid value for p99: host-noise; 0 of 3 repeats valid"), "{said}");

    let (why, said) = refused(&measured("weir", 1, &GOROUTER), demand(10_000.0));
    assert_eq!(why, RefusedFor::Unknown);
    assert!(
        said.contains("no valid value for the rate: an interval needs two valid repeats (1 valid repeat)"),
        "{said}"
    );
}

#[test]
fn an_undecided_rate_is_no_limit() {
    let without = |loads: &[usize]| {
        let mut cells = measured("weir", 3, &GOROUTER);
        for measurement in cells.iter_mut().flat_map(|cell| {
            let all = measurements(cell).iter_mut().enumerate();
            all.filter(|(at, _)| loads.contains(at)).map(|(_, measurement)| measurement)
        }) {
            measurement.judgement.verdicts.latency = vec![Reason::GeneratorLimited];
            measurement.judgement.bounds = None;
        }
        sized(&cells, demand(10_000.0))
    };
    let invalid = "no valid value for p99: generator-limited; 0 of 3 repeats valid";
    let answer = without(&[1, 2]);
    assert_eq!((answer.rate_per_s.value, answer.basis), (1_000.0, Basis::AtLeast));
    let known = "objective met at 1,000/s, the highest rate with valid results: an instance may carry more. `weir run \
         capacity` searches for the maximum";
    let unknown = ["2,500/s", "5,000/s"].map(|rate| format!("undecided: at {rate}, {invalid}"));
    assert_eq!(answer.notes, [&unknown[0], &unknown[1], known]);
    let answer = without(&[1]);
    assert_eq!((answer.rate_per_s.value, answer.basis), (1_000.0, Basis::Measured));
    assert_eq!(answer.notes[0], unknown[0]);
    assert!(
        answer.notes[1].starts_with("next rate not used: at 5,000/s, p99 is 60.0 ms"),
        "{:?}",
        answer.notes
    );
}

#[test]
fn a_rate_to_measure_is_suggested_only_between_measured_rates() {
    let asked = Demand { cpu_share_max: Some(0.65), ..demand(10_000.0) };
    // 1,000/s uses 20 % of the CPU limit, so 65 % would allow 3,250/s. But 2,500/s already uses 90 %.
    let rates = [("low", 1_000, 5.0, 0.2), ("middle", 2_500, 8.0, 0.9)];
    let answer = sized(&measured("weir", 3, &rates), asked.clone());
    assert_eq!(
        answer.notes,
        ["next rate not used: at 2,500/s, CPU is 90.0 % [90.0 .. 90.0], above the limit of 65.0 %"]
    );
    let rates = [("low", 1_000, 5.0, 0.2), ("middle", 2_500, 8.0, 0.6)];
    let mut cells = measured("weir", 3, &rates);
    measurements(&mut cells[0])[1].usage.get_mut("weir").unwrap().cpu_share_of_limit = Some(0.7);
    let [note] = &sized(&cells, asked).notes[..] else { panic!("one note") };
    assert!(
        note.starts_with("next rate not used: at 2,500/s, CPU is ") && note.contains("borderline"),
        "{note}"
    );
    assert!(
        note.ends_with("the limit of 65.0 % lies within its interval; more repeats narrow the interval"),
        "{note}"
    );
}

#[test]
fn an_overloaded_gateway_misses_any_objective() {
    let mut cells = measured("weir", 3, &GOROUTER);
    let judgement = &mut measurements(&mut cells[1])[1].judgement;
    judgement.verdicts.latency = vec![Reason::Overloaded];
    judgement.bounds = None;
    let answer = sized(&cells, demand(10_000.0));
    assert_eq!((answer.rate_per_s.value, answer.instances.value), (1_000.0, 10));
    assert_eq!(answer.notes, ["next rate not used: at 2,500/s, p99 is not met: the gateway was overloaded"]);
}

#[test]
fn errors_are_bounded_together_with_latency() {
    let mut cells = measured("weir", 3, &GOROUTER);
    for cell in &mut cells {
        let requests = &mut measurements(cell)[1].record.result.requests;
        requests.unexpected = requests.scheduled / 2_000;
    }
    let with_errors = |limit: f64| {
        let bounds = p99(20.0).into_iter().flatten().chain([Bound { name: "errors".into(), limit }]);
        Demand { bounds: Some(bounds.collect()), ..demand(10_000.0) }
    };
    assert_eq!(sized(&cells, with_errors(0.001)).rate_per_s.value, 2_500.0);
    let answer = sized(&cells, with_errors(0.0001));
    assert_eq!(answer.rate_per_s.value, 1_000.0);
    assert!(answer.notes[0].contains("the error share is 0.0480 %"), "{:?}", answer.notes);
}

#[test]
fn each_point_of_the_limits_is_an_instance_type_and_the_cheapest_comes_first() {
    let mut cells = Vec::new();
    for (cpus, scale) in [(0.5, 1), (1.0, 3), (2.0, 4)] {
        let rates = [("low", 500 * scale, 5.0, 0.4), ("high", 1_000 * scale, 60.0, 0.9)];
        for mut cell in measured("weir", 3, &rates) {
            cell.key.axes = BTreeMap::from([("limits.data.cpus".to_owned(), serde_json::json!(cpus))]);
            cell.parts[0].limit_cpus = Some(cpus);
            cells.push(cell);
        }
    }
    let settings = |demand: Demand| -> Vec<String> {
        let offers = sizing(&["weir"], None, &cells, demand).offers;
        offers.into_iter().map(|offer| offer.setting.replace("limits.data.cpus = ", "")).collect()
    };
    assert_eq!(settings(demand(6_000.0)), ["2.0", "1.0", "0.5"], "by their number: 3, 4 and 12");
    let per_core = Some(Price { per_hour: 0.1, of: PriceOf::Core });
    // The offers need 4 cores (4 instances with 1 core), 6 cores (12 with 0.5) and 6 cores (3 with 2). Offers with
    // equal costs keep the order of the axis.
    assert_eq!(settings(Demand { price: per_core, ..demand(6_000.0) }), ["1.0", "0.5", "2.0"]);
}

#[test]
fn rates_of_an_axis_are_load_points_of_one_type() {
    let mut cells = Vec::new();
    for (_, rate_per_s, p99_ms, share) in GOROUTER {
        for mut cell in measured("weir", 3, &[("steady", rate_per_s, p99_ms, share)]) {
            cell.key.axes =
                BTreeMap::from([("loads.steady.rate".to_owned(), format!("{rate_per_s}/s").into())]);
            cells.push(cell);
        }
    }
    let answer = offer(&cells, demand(10_000.0));
    assert_eq!(answer.setting, "");
    let Outcome::Sized(sized) = answer.outcome else { panic!("{answer:?}") };
    assert_eq!(sized.instances.value, 4);
}

#[test]
fn every_gateway_has_a_row_and_refusals_are_last() {
    let mut cells = measured("nginx", 3, &GOROUTER[2..]);
    cells.extend(measured("weir", 3, &GOROUTER));
    cells.extend((0..3).map(|repeat| cell("closed", repeat, vec![full(20_000)])));
    cells.push(failed("broken", 0));
    let sizing = sizing(&["nginx", "broken", "closed", "weir"], None, &cells, demand(10_000.0));
    let names: Vec<&str> = sizing.offers.iter().map(|offer| offer.gateway.as_str()).collect();
    assert_eq!(names, ["weir", "nginx", "broken", "closed"]);
    assert_eq!(sizing.unanswered(), ["nginx", "broken", "closed"]);
    for offer in &sizing.offers[2..] {
        let Outcome::Refused(refused) = &offer.outcome else { panic!("{offer:?}") };
        assert_eq!(refused.why, RefusedFor::NothingMeasured);
    }
}

#[test]
fn loads_of_different_kinds_are_sized_separately() {
    let cells = measured(
        "weir",
        3,
        &[("plain", 1_000, 5.0, 0.2), ("large", 900, 5.0, 0.2), ("more", 2_000, 5.0, 0.4)],
    );
    let mut run = plan(run(&["weir"], None), &cells);
    run.scenario["loads"] = serde_json::json!({
        "plain": { "model": "open", "rate": "1000/s", "connections": 8 },
        "large": { "model": "open", "rate": "900/s", "mix": [{ "path": "/large" }] },
        "more": { "model": "open", "rate": "2000/s", "connections": 32 },
    });
    let sized = |scenario: &weir_results::Run| -> Vec<(String, f64)> {
        let offers = size(scenario, &summarize(scenario, &cells), demand(10_000.0)).offers;
        let rate = |offer: &Offer| match &offer.outcome {
            Outcome::Sized(sized) => sized.rate_per_s.value,
            Outcome::Refused(refused) => panic!("{refused:?}"),
        };
        offers.iter().map(|offer| (offer.setting.clone(), rate(offer))).collect()
    };
    assert_eq!(sized(&run), [("plain .. more".to_owned(), 2_000.0), ("large".to_owned(), 900.0)]);
    // A load with a changing rate is not used for sizing.
    run.scenario["loads"]["more"]["rate"] = "1000/s..3000/s".into();
    run.scenario["loads"]["large"]["burst"] = "2000/s:100ms/1s".into();
    assert_eq!(sized(&run), [(String::new(), 1_000.0)]);
}

#[test]
fn a_kind_of_load_has_the_common_prefix_of_its_loads_as_name() {
    let rates = [
        ("get-10", 1_000, 5.0, 0.2),
        ("get-50", 3_000, 5.0, 0.2),
        ("new-10", 900, 5.0, 0.2),
        ("new-50", 2_000, 5.0, 0.4),
    ];
    let cells = measured("weir", 3, &rates);
    let mut run = plan(run(&["weir"], None), &cells);
    let types = |scenario: &weir_results::Run| -> Vec<(String, Vec<String>)> {
        let types = instance_types(scenario, &summarize(scenario, &cells));
        let loads = |of: &InstanceType| of.points.iter().map(|point| point.load.clone()).collect();
        types.iter().map(|of| (of.load.clone(), loads(of))).collect()
    };
    let of = |name: &str, loads: [&str; 2]| (name.to_owned(), loads.map(str::to_owned).to_vec());
    let large = serde_json::json!({ "model": "open", "mix": [{ "path": "/large" }] });
    let small = serde_json::json!({ "model": "open" });
    run.scenario["loads"] =
        serde_json::json!({ "get-10": small, "get-50": small, "new-10": large, "new-50": large });
    assert_eq!(types(&run), [of("get", ["get-10", "get-50"]), of("new", ["new-10", "new-50"])]);
    // If two groups of loads would get the same name, each group is named after its first and last load.
    run.scenario["loads"] =
        serde_json::json!({ "get-10": small, "get-50": large, "new-10": large, "new-50": small });
    let crossed =
        [of("get-10 .. new-50", ["get-10", "new-50"]), of("new-10 .. get-50", ["new-10", "get-50"])];
    assert_eq!(types(&run), crossed);
}

#[test]
fn fewer_than_two_repeats_cannot_be_sized() {
    let may_answer = |repeats: u32| {
        let cells = measured("weir", repeats, &GOROUTER);
        let run = plan(run(&["weir"], None), &cells);
        let types = instance_types(&run, &summarize(&run, &cells));
        assert!(types[0].points.iter().all(|point| point.valid_repeats == repeats as usize));
        types[0].may_answer()
    };
    assert_eq!([1, 2, 3].map(may_answer), [false, true, true]);
}

#[test]
fn the_default_objective_is_that_of_the_run() {
    let cells = [measured("weir", 3, &GOROUTER), measured("nginx", 3, &GOROUTER)].concat();
    let bound = |limit_ms: u64| BTreeMap::from([("p99".to_owned(), limit_ms * 1_000_000)]);
    let own = |load: &str| OwnObjective {
        gateway: "nginx".into(),
        axes: BTreeMap::new(),
        load: load.into(),
        latency_ns: bound(100),
        errors: None,
        findings: BTreeMap::new(),
    };
    let objective = Objective {
        latency_ns: bound(20),
        own: ["low", "middle", "high"].map(own).to_vec(),
        ..Objective::default()
    };
    let asked = Demand { bounds: None, ..demand(10_000.0) };
    let sizing = sizing(&["weir", "nginx"], Some(objective), &cells, asked);
    let said: Vec<(&str, f64, u64)> = sizing
        .offers
        .iter()
        .map(|offer| match &offer.outcome {
            Outcome::Sized(sized) => (offer.gateway.as_str(), offer.bounds[0].limit, sized.instances.value),
            Outcome::Refused(refused) => panic!("{refused:?}"),
        })
        .collect();
    assert_eq!(said, [("nginx", 1e8, 2), ("weir", 2e7, 4)]);
}

#[test]
fn a_capacity_search_for_the_same_objective_is_used() {
    let capacities = [3_080.0, 3_100.0, 3_120.0];
    let sought = |repeat: usize| searched("weir", repeat as u32, found(capacities[repeat]));
    let mut cells: Vec<Cell> = (0..3).map(sought).collect();
    let asked = |limit_ms: f64| {
        let errors = Bound { name: "errors".into(), limit: 0.001 };
        Demand { bounds: p99(limit_ms).map(|bounds| [bounds, vec![errors]].concat()), ..demand(10_000.0) }
    };
    let answer = sized(&cells, asked(20.0));
    assert_eq!((answer.basis, answer.cpu_share, answer.instances), (Basis::Searched, None, count(4, 4, 4)));
    assert!((answer.rate_per_s.value - 3_100.0).abs() < 0.1, "{answer:?}");
    let kept = "p99 at most 20.0 ms and errors at most 0.100 %";
    assert_eq!(answer.notes, [format!("from a search for {kept}: 6 trials in 3 searches")]);
    // The default is the objective of the search.
    let offered = offer(&cells, Demand { bounds: None, ..demand(10_000.0) });
    assert_eq!(Some(offered.bounds), asked(20.0).bounds);

    // A looser objective allows at least the rate that the search found. A stricter objective, or one on CPU, needs
    // other measurements.
    for less in [asked(50.0), demand(10_000.0)] {
        let answer = sized(&cells, less);
        assert_eq!(answer.basis, Basis::AtLeast);
        let note = format!("an instance may carry more: the search had a stricter objective, {kept}");
        assert_eq!(answer.notes, [note]);
    }
    let (why, said) = refused(&cells, asked(5.0));
    assert_eq!(why, RefusedFor::NothingMeasured);
    assert!(said.starts_with(&format!("the run has only a search for another objective, {kept}")), "{said}");
    let (_, said) = refused(&cells, Demand { cpu_share_max: Some(0.65), ..asked(20.0) });
    assert!(said.contains("does not measure CPU: remove --max-cpu"), "{said}");

    // Loads with given rates cover objectives that the search does not cover, such as CPU.
    for (cell, rates) in cells.iter_mut().zip(measured("weir", 3, &GOROUTER)) {
        let CellOutcome::Measured { measurements: more } = rates.outcome else { unreachable!() };
        measurements(cell).extend(more);
    }
    assert_eq!(sized(&cells, asked(20.0)).basis, Basis::Searched);
    let answer = sized(&cells, Demand { cpu_share_max: Some(0.65), ..demand(10_000.0) });
    assert_eq!((answer.rate_per_s.value, answer.basis), (2_500.0, Basis::Measured));
}

#[test]
fn a_search_without_a_result_is_refused() {
    let nothing = || Found { capacity_per_s: None, interval_per_s: None, at_least_per_s: None, ..found(1.0) };
    let cells: Vec<Cell> = (0..3).map(|repeat| searched("weir", repeat, nothing())).collect();
    let (why, said) = refused(&cells, demand(10_000.0));
    assert_eq!(why, RefusedFor::Unknown);
    assert!(
        said.starts_with("the search for p99 at most 20.0 ms and errors at most 0.100 % has no valid result"),
        "{said}"
    );
}
