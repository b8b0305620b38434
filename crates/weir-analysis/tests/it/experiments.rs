//! Findings from several load points: throughput with more users at a CPU limit, throughput at different CPU limits,
//! and throughput relative to the direct baseline.

use std::collections::BTreeMap;

use serde_json::json;
use weir_analysis::findings::Value;
use weir_analysis::{Experiment, Summary, summarize};
use weir_results::ArrivalModel::{Closed, Open};
use weir_results::{Cell, CellOutcome, DIRECT, HostShare, Usage};

use crate::records::{quiet, record, usage};
use crate::runs::{Load, cell, plan, run};

/// A closed load as a tuple: number of connections, responses per second, and the gateway's CPU use as a share of its
/// CPU limit.
type Users = (u32, f64, f64);

/// A gateway at a CPU limit. Rates differ by 1 % between repeats.
struct Bench {
    gateway: &'static str,
    cpus: Option<f64>,
    users: Vec<Users>,
    /// The loads with host noise, by number of connections and repeat.
    disturbed: Vec<(u32, u32)>,
    repeats: u32,
}

fn bench(gateway: &'static str, cpus: f64, users: &[Users]) -> Bench {
    Bench { gateway, cpus: Some(cpus), users: users.to_vec(), disturbed: Vec::new(), repeats: 3 }
}

impl Bench {
    fn cells(&self) -> Vec<Cell> {
        (0..self.repeats).map(|repeat| self.cell(repeat)).collect()
    }

    fn cell(&self, repeat: u32) -> Cell {
        let cpus = self.cpus.unwrap_or(1.0);
        let load = |(connections, rate, share): &Users| {
            let rate_per_s = (rate * (1.0 + 0.01 * (f64::from(repeat) - 1.0))) as u64;
            let mut record = record(Closed, rate_per_s, u64::from(*connections) * 900_000_000 / rate_per_s);
            record.generator.connections = *connections;
            let used = Usage { cpu_cores: share * cpus, ..usage(*share) };
            let is_disturbed = self.disturbed.contains(&(*connections, repeat));
            let host = if is_disturbed { HostShare { steal: 0.1, others: 0.0, idle: 0.2 } } else { quiet() };
            let data = match self.cpus {
                Some(_) => used,
                None => Usage { cpu_share_of_limit: None, ..used },
            };
            Load { name: name(*connections), record, data, host }
        };
        let mut cell = cell(self.gateway, repeat, self.users.iter().map(load).collect());
        cell.key.axes =
            self.cpus.map(|cpus| ("limits.data.cpus".to_owned(), json!(cpus))).into_iter().collect();
        cell.parts.iter_mut().for_each(|part| part.limit_cpus = self.cpus);
        if let CellOutcome::Measured { measurements } = &mut cell.outcome {
            for (measurement, (connections, ..)) in measurements.iter_mut().zip(&self.users) {
                measurement.connections = *connections;
            }
        }
        cell
    }
}

fn name(connections: u32) -> &'static str {
    match connections {
        1 => "users-1",
        4 => "users-4",
        8 => "users-8",
        16 => "users-16",
        _ => "users-n",
    }
}

fn summary(benches: &[Bench]) -> Summary {
    let cells: Vec<Cell> = benches.iter().flat_map(Bench::cells).collect();
    summarize(&plan(run(&["weir", "nginx"], None), &cells), &cells)
}

fn experiment(benches: &[Bench]) -> Experiment {
    let summary = summary(benches);
    assert_eq!(summary.experiments.len(), 1);
    summary.experiments[0].clone()
}

#[track_caller]
fn check(bench: Bench, expected: &str) {
    let experiment = experiment(&[bench]);
    assert_eq!(experiment.saturations[0].analysis, expected);
}

#[test]
fn a_saturated_limit_is_described_with_the_gain_of_more_connections() {
    check(
        bench("weir", 0.5, &[(4, 5_000.0, 0.8), (8, 5_900.0, 0.98), (16, 5_940.0, 0.981)]),
        "weir saturates 0.5 cores from 8 connections on (98.0 % to 98.1 % of the limit): more connections \
        give the same throughput (+0.7 % from 8 to 16 connections; intervals overlap); its maximum is \
        5,939/s [5,793 .. 6,089] at 16 connections, 11,879/s per core.",
    );
    check(
        bench("weir", 1.0, &[(4, 5_000.0, 0.92), (8, 6_500.0, 0.99)]),
        "weir saturates 1 core from 4 connections on (92.0 % to 99.0 % of the limit): more connections give \
        more throughput (+30.0 % from 4 to 8 connections); its maximum is 6,500/s [6,340 .. 6,663] at 8 \
        connections, 6,500/s per core.",
    );
    check(
        bench("weir", 1.0, &[(4, 5_000.0, 0.99), (8, 4_000.0, 0.99)]),
        "weir saturates 1 core from 4 connections on (99.0 % of the limit): more connections give less \
        throughput (-20.0 % from 4 to 8 connections); its maximum is 5,000/s [4,877 .. 5,126] at 4 \
        connections, 5,000/s per core.",
    );
    check(
        bench("weir", 1.0, &[(4, 5_000.0, 0.97), (8, 5_500.0, 0.6), (16, 5_000.0, 0.98)]),
        "weir saturates 1 core at 4 and 16 connections (97.0 % to 98.0 % of the limit): more connections give \
        the same throughput (+0.0 % from 4 to 16 connections; intervals overlap); its maximum is 5,000/s \
        [4,877 .. 5,126] at 16 connections, 5,000/s per core.",
    );
    check(
        bench("weir", 1.0, &[(1, 2_000.0, 0.4), (4, 5_000.0, 0.9)]),
        "weir saturates 1 core at 4 connections (90.0 % of the limit): its maximum is 5,000/s [4,877 .. 5,126] at 4 \
         connections, 5,000/s per core.",
    );
}

#[test]
fn a_limit_that_is_not_saturated_has_no_maximum() {
    let rising = bench("weir", 1.0, &[(1, 2_000.0, 0.3), (4, 5_000.0, 0.85)]);
    assert_eq!(experiment(&[rising]).saturations[0].maximum, None);
    check(
        bench("weir", 1.0, &[(1, 2_000.0, 0.3), (4, 5_000.0, 0.85)]),
        "weir does not saturate 1 core with 1 to 4 connections (30.0 % to 85.0 % of the limit): more \
        connections give more throughput (+150.0 % from 1 to 4 connections). Its maximum is at least 5,000/s \
        [4,877 .. 5,126], measured at 4 connections.",
    );
}

#[test]
fn without_a_limit_nothing_is_saturated() {
    let free = |users: &[Users]| Bench { cpus: None, ..bench("weir", 1.0, users) };
    check(
        free(&[(4, 5_000.0, 0.8), (8, 5_050.0, 0.99)]),
        "weir has no CPU limit to saturate (4 to 8 connections): more connections give the same throughput \
        (+1.0 % from 4 to 8 connections; intervals overlap). Its maximum is at least 5,049/s \
        [4,926 .. 5,177], measured at 8 connections.",
    );
    assert_eq!(experiment(&[free(&[(4, 5_000.0, 0.8), (8, 5_050.0, 0.99)])]).users_conclusions, [""; 0]);
}

#[test]
fn invalid_loads_are_named_and_excluded() {
    let users = [(4, 5_900.0, 0.98), (8, 9_000.0, 0.98), (16, 5_940.0, 0.98)];
    check(
        Bench { disturbed: vec![(8, 1)], ..bench("weir", 0.5, &users) },
        "weir saturates 0.5 cores from 4 connections on (98.0 % of the limit): more connections give the same \
        throughput (+0.7 % from 4 to 16 connections; intervals overlap); its maximum is 5,939/s [5,793 .. \
        6,089] at 16 connections, 11,879/s per core. No conclusion at 8 connections (host-noise; 2 of 3 \
        repeats valid).",
    );
    check(
        Bench { repeats: 2, ..bench("weir", 0.5, &users) },
        "No conclusion about weir with 0.5 cores: 4, 8 and 16 connections (2 valid repeats).",
    );
    let all: Vec<(u32, u32)> = [4, 8, 16].iter().flat_map(|users| [(*users, 0), (*users, 2)]).collect();
    let disturbed = experiment(&[Bench { disturbed: all, ..bench("weir", 0.5, &users) }]);
    assert_eq!(
        disturbed.saturations[0].analysis,
        "No conclusion about weir with 0.5 cores: 4, 8 and 16 connections (host-noise; 1 of 3 \
        repeats valid)."
    );
    assert_eq!(disturbed.users_conclusions, [""; 0]);
}

#[test]
fn users_at_the_highest_limit_are_summarized_over_gateways() {
    let experiment = experiment(&[
        bench("weir", 0.5, &[(4, 5_000.0, 0.99), (8, 5_000.0, 0.99)]),
        bench("weir", 1.0, &[(4, 8_000.0, 0.7), (8, 9_000.0, 0.8)]),
        bench("nginx", 0.5, &[(4, 3_000.0, 0.99), (8, 3_000.0, 0.99)]),
        bench("nginx", 1.0, &[(4, 6_000.0, 0.8), (8, 7_000.0, 0.99)]),
    ]);
    assert_eq!(
        experiment.users_conclusions,
        [
            "Full load (90.0 % of 1 core) is reached by nginx at 8 connections; not reached by weir.",
            "Throughput of 1 core at full load: nginx 7,000/s [6,828 .. 7,176] at 8 connections.",
        ]
    );
    let disturbed =
        Bench { disturbed: vec![(8, 0)], ..bench("weir", 1.0, &[(4, 8_000.0, 0.7), (8, 9_000.0, 0.99)]) };
    assert_eq!(
        self::experiment(&[disturbed]).users_conclusions,
        ["Full load (90.0 % of 1 core) is not reached by weir in the valid load with 4 connections."]
    );
    let limits: Vec<_> = experiment.limits.iter().map(|limit| (limit.cpus, limit.closed.len())).collect();
    assert_eq!(limits, [(Some(0.5), 2), (Some(1.0), 2)]);
}

#[test]
fn cores_are_compared_if_both_ends_are_saturated() {
    let at = |cpus: f64, rate: f64, share: f64| bench("weir", cpus, &[(8, rate, share)]);
    let said = |benches: &[Bench]| experiment(benches).per_core[0].conclusion.clone();
    assert_eq!(
        said(&[at(0.5, 5_000.0, 0.99), at(1.0, 8_000.0, 0.99)]),
        "weir handles 10,000/s [9,754 .. 10,251] per core with 0.5 cores, and 8,000/s [7,803 .. 8,201] with 1 core, \
         a ratio of 80.0 % [80.0 .. 80.0]: 20.0 % [20.0 .. 20.0] of each core's throughput is lost."
    );
    assert_eq!(
        said(&[at(1.0, 5_000.0, 0.99), at(3.0, 12_000.0, 0.99)]),
        "weir handles 5,000/s [4,877 .. 5,126] per core with 1 core, and 4,000/s [3,902 .. 4,100] with 3 cores, \
         a ratio of 80.0 % [80.0 .. 80.0]: 20.0 % [20.0 .. 20.0] of each core's throughput is lost \
         (10.0 % [10.0 .. 10.0] per added core)."
    );
    assert!(
        said(&[at(0.5, 5_000.0, 0.99), at(1.0, 11_000.0, 0.99)])
            .ends_with(": throughput per core is higher with more cores.")
    );
    assert_eq!(
        said(&[at(0.5, 5_000.0, 0.99), at(1.0, 8_000.0, 0.5)]),
        "weir: throughput per core is not compared: valid loads saturate only the limit of 0.5 cores, at 5,000/s."
    );
    assert_eq!(
        said(&[at(0.5, 5_000.0, 0.5), at(1.0, 8_000.0, 0.5)]),
        "weir: throughput per core is not compared: no valid load saturates a CPU limit."
    );
    let invalid = Bench { disturbed: vec![(8, 0), (8, 1)], ..at(1.0, 8_000.0, 0.99) };
    assert_eq!(
        said(&[at(0.5, 5_000.0, 0.99), invalid]),
        "weir: throughput per core is not compared: valid loads saturate only the limit of 0.5 cores, at 5,000/s; no \
         load is valid with 1 core."
    );
    // The first repeat is invalid at one limit, the third at the other, so only two pairs are valid.
    let four = |cpus: f64, rate: f64, disturbed: u32| Bench {
        disturbed: vec![(8, disturbed)],
        repeats: 4,
        ..at(cpus, rate, 0.99)
    };
    assert_eq!(
        said(&[four(0.5, 5_000.0, 0), four(1.0, 8_000.0, 2)]),
        "weir: throughput per core is not compared: three valid repeats are required at both limits."
    );
}

#[test]
fn repeats_that_scatter_show_no_loss() {
    // With 0.5 cores, throughput rises from repeat to repeat; with 1 core, it falls. So the ratio of throughput per
    // core (1 core / 0.5 cores) varies around 0.98.
    let mut cells = bench("weir", 0.5, &[(8, 5_000.0, 0.99)]).cells();
    let mut others = bench("weir", 1.0, &[(8, 9_800.0, 0.99)]).cells();
    for (cell, repeat) in others.iter_mut().zip([2, 1, 0]) {
        cell.key.repeat = repeat;
    }
    cells.extend(others);
    let summary = summarize(&plan(run(&["weir"], None), &cells), &cells);
    let said = &summary.experiments[0].per_core[0].conclusion;
    assert!(said.ends_with(": no significant loss, because the interval includes 100 %."), "{said}");
}

/// A run in which the generator limits the direct baseline in the second load.
fn limited_direct(benches: &[Bench]) -> Summary {
    let mut cells: Vec<Cell> = benches.iter().flat_map(Bench::cells).collect();
    for cell in cells.iter_mut().filter(|cell| cell.key.gateway == DIRECT) {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
        measurements[1].judgement.verdicts.throughput = vec![weir_results::Reason::GeneratorLimited];
        measurements[1].judgement.bounds = None;
    }
    summarize(&plan(run(&["weir"], None), &cells), &cells)
}

#[test]
fn shares_of_direct_are_printed_as_a_range() {
    let users = [(4, 5_000.0, 0.99), (8, 6_000.0, 0.99)];
    let mut benches = vec![bench("weir", 0.5, &users)];
    benches.push(bench(DIRECT, 0.5, &[(4, 20_000.0, 0.0), (8, 20_000.0, 0.0)]));
    assert_eq!(
        experiment(&benches).direct_conclusions,
        ["Share of the direct throughput at all connection counts and limits: weir 25.0 % to 30.0 %."]
    );
    let summary = limited_direct(&benches);
    assert_eq!(
        summary.experiments[0].direct_conclusions,
        [
            "Share of the direct throughput at all connection counts and limits: weir 25.0 % to ≤ 30.0 % (≤: the rig \
            limited the direct load, so the share is an upper bound)."
        ]
    );
}

#[test]
fn users_at_each_limit_are_a_finding_with_the_values_of_the_load_points() {
    let users = [(4, 5_000.0, 0.8), (8, 6_000.0, 0.99)];
    let summary =
        summary(&[bench("weir", 0.5, &users), bench("weir", 1.0, &users), bench("nginx", 1.0, &users)]);
    let finding = summary.findings.iter().find(|finding| finding.key == "users").unwrap();
    let captions: Vec<&str> = finding.tables.iter().map(|table| table.caption.as_str()).collect();
    assert_eq!(captions, ["Users at each limit of weir", "Users at each limit of nginx"]);
    let (weir, nginx) = (&finding.tables[0], &finding.tables[1]);
    assert_eq!((weir.rows.len(), nginx.rows.len()), (4, 4), "nginx has no value at one limit");
    let keys: Vec<&str> = weir.columns.iter().map(|column| column.key).collect();
    assert_eq!(keys[..3], ["limit", "users", "throughput"]);
    let full = weir.rows.last().unwrap();
    assert_eq!((full.load.as_str(), &full.axes["limits.data.cpus"]), ("users-8", &json!(1.0)));
    let Value::Extremes { least, greatest, valid } = full.values[3] else { panic!("{:?}", full.values) };
    assert!(valid && least > 0.9 && greatest <= 1.0, "{least} {greatest}");
    assert_eq!(full.values[2].as_number(), summary.points.last().unwrap().rows[0].throughput_per_s.mean);
    assert_eq!(nginx.rows[0].values[2], Value::Missing);
}

#[test]
fn a_share_of_a_limited_direct_is_an_upper_bound_in_its_finding() {
    let users = [(4, 5_000.0, 0.99), (8, 6_000.0, 0.99)];
    let benches = [bench("weir", 0.5, &users), bench(DIRECT, 0.5, &[(4, 20_000.0, 0.0), (8, 20_000.0, 0.0)])];
    let summary = limited_direct(&benches);
    let finding = summary.findings.iter().find(|finding| finding.key == "of-direct").unwrap();
    let shares: Vec<&Value> = finding.tables[0].rows.iter().map(|row| &row.values[3]).collect();
    let [Value::Figure { figure: known }, Value::Figure { figure: bound }] = shares[..] else {
        panic!("{shares:?}")
    };
    assert!(known.headline && !known.is_bounded(), "{known:?}");
    assert!(bound.bounds.low.is_none() && bound.bounds.high >= Some(0.299_999), "{:?}", bound.bounds);
    assert_eq!(bound.reasons(), [(weir_results::Reason::GeneratorLimited, 3)]);
}

#[test]
fn loads_of_other_kinds_and_single_points_make_no_experiment() {
    assert!(summary(&[bench("weir", 0.5, &[(8, 5_000.0, 0.99)])]).experiments.is_empty());
    let cells = bench("weir", 0.5, &[(4, 5_000.0, 0.99), (8, 5_000.0, 0.99)]).cells();
    let mut run = plan(run(&["weir"], None), &cells);
    let found = |loads: serde_json::Value, run: &mut weir_results::Run| {
        run.scenario["loads"] = loads;
        summarize(run, &cells).experiments.len()
    };
    let alike = json!({ "users-4": { "connections": 4, "think": "1ms" }, "users-8": { "connections": 8, "think": "1ms" } });
    assert_eq!(found(alike, &mut run), 1);
    let other = json!({ "users-4": { "connections": 4 }, "users-8": { "connections": 8, "think": "1ms" } });
    assert_eq!(found(other, &mut run), 0, "they differ in more than their connections");
    let stepped = json!({ "users-4": { "connections": "1..4" }, "users-8": { "connections": 8 } });
    assert_eq!(found(stepped, &mut run), 0, "a ramp has no single number of connections");
}

#[test]
fn connections_on_an_axis_are_users_and_open_loads_belong_to_their_limit() {
    let mut cells = Vec::new();
    for (connections, rate) in [(4, 4_000.0), (8, 5_000.0)] {
        for mut cell in bench("weir", 0.5, &[(connections, rate, 0.99)]).cells() {
            cell.key.axes.insert("loads.full.connections".into(), json!(connections));
            cells.push(cell);
        }
    }
    let summary = summarize(&plan(run(&["weir"], None), &cells), &cells);
    assert_eq!(summary.experiments[0].saturations[0].full_at, [4, 8]);

    let mut cells = bench("weir", 0.5, &[(4, 4_000.0, 0.9), (8, 5_000.0, 0.99)]).cells();
    for cell in &mut cells {
        let tail =
            Load { name: "tail", record: record(Open, 1_000, 200_000), data: usage(0.3), host: quiet() };
        let of_tail = crate::runs::cell("weir", cell.key.repeat, vec![tail]);
        let CellOutcome::Measured { measurements: tail } = of_tail.outcome else { unreachable!() };
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
        measurements.extend(tail);
    }
    let summary = summarize(&plan(run(&["weir"], None), &cells), &cells);
    let limit = &summary.experiments[0].limits[0];
    let loads =
        |places: &[usize]| places.iter().map(|place| summary.points[*place].load.clone()).collect::<Vec<_>>();
    assert_eq!(loads(&limit.closed), ["users-4", "users-8"]);
    assert_eq!(loads(&limit.open), ["tail"]);
    assert_eq!(summary.experiments[0].axes, BTreeMap::new());
}
