//! Cost of registering all routes again during a load.

use weir_results::{Event, Reason, Registration, Role};

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::figures::figure::{Figure, Range, Repeated, Sample};
use crate::figures::quantity::{counted, number, time_ns};
use crate::figures::seconds::{Seconds, of_phase};
use crate::headroom::ratio;
use crate::points::axes::with_axes;
use crate::points::conclusions::with_interval;
use crate::points::grouping::Group;
use crate::points::measured::{Repeat, Repeats};
use crate::verdicts::reasons::value;

pub(super) const FINDER: Finder = Finder { key: "registrations", columns: &[&COLUMNS], find };

const INTRO: &str = "\
All routes are registered again during the load. \"During\" covers the seconds from the first message of a \
registration until one second after the last. \"Rest\" covers all other seconds of the same phase, with the same \
processes. CPU is in cores of the data plane. \"Extra CPU time\" is the CPU time during one registration minus the CPU \
time in an equally long part of the rest.";

static COLUMNS: [Column; 12] = [
    Column::of("load", "Load", Unit::Load, 8),
    Column::of("registrations", "Registrations", Unit::Count, KEEP),
    Column::of("messages", "Messages", Unit::Count, 6),
    Column::of("took", "Duration", Unit::Nanoseconds, 7).lower(),
    Column::of("cpu_during", "CPU during", Unit::Cores, KEEP).lower(),
    Column::of("cpu_rest", "CPU, rest", Unit::Cores, 7).lower(),
    Column::of("cpu_ratio", "CPU, ratio", Unit::Number, KEEP)
        .lower()
        .judged("registrations.cpu_ratio", 0.10)
        .drawn(),
    Column::of("cpu_each", "Extra CPU time", Unit::Seconds, 8)
        .lower()
        .compared("registrations.cpu_each", 0.10)
        .cpu_time(),
    Column::of("throughput_ratio", "Throughput, ratio", Unit::Number, 8)
        .higher()
        .compared("registrations.throughput_ratio", 0.10),
    Column::of("p99_during", "p99 during", Unit::Nanoseconds, KEEP)
        .lower()
        .compared("registrations.p99_during", 0.25),
    Column::of("p99_rest", "p99, rest", Unit::Nanoseconds, 7).lower(),
    Column::of("p99_ratio", "p99, ratio", Unit::Number, KEEP)
        .lower()
        .compared("registrations.p99_ratio", 0.25),
];

/// Reasons that do not make the p99 invalid: a gateway may reach its CPU quota while it processes registrations.
const CAUSED: [Reason; 1] = [Reason::Throttled];

/// Selects one part of a repeat: the seconds during registrations, or all other seconds.
type Part = for<'a, 'b> fn(&'a Split<'b>) -> &'a Seconds<'b>;

/// One repeat, split into the seconds during registrations and the rest.
struct Split<'a> {
    repeat: &'a Repeat<'a>,
    registrations: Vec<Registration>,
    during: Seconds<'a>,
    rest: Seconds<'a>,
}

impl Split<'_> {
    /// Extra CPU time of the data plane per registration, seconds, compared with the rest of the repeat.
    fn cpu_s_each(&self) -> Option<f64> {
        let more = cores(self.repeat, &self.during)? - cores(self.repeat, &self.rest)?;
        Some(more * self.during.length_s() / self.registrations.len() as f64)
    }
}

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let mut finding = Finding::new(FINDER.key, "Registrations", INTRO);
    let mut rows = Vec::new();
    for group in measured.groups {
        for (gateway, repeats) in &group.rows {
            let Some((row, sentence)) = row(group, gateway, repeats) else { continue };
            rows.push(row);
            finding.sentences.push(sentence);
        }
    }
    let caption = "Cost of registering all routes again".to_owned();
    finding.tables = vec![Table { caption, columns: &COLUMNS, rows }];
    (!finding.sentences.is_empty()).then_some(finding)
}

/// The row of a gateway, and its sentence; `None` without a registration in the sustained phase.
fn row(group: &Group<'_>, gateway: &str, repeats: &Repeats<'_>) -> Option<(Row, String)> {
    let splits: Vec<Split<'_>> = repeats.iter().filter_map(split).collect();
    let registrations: Vec<Registration> =
        splits.iter().flat_map(|split| split.registrations.clone()).collect();
    let messages = registrations.iter().map(|of| of.messages).max()?;
    let took_ns = registrations.iter().map(|of| of.took_ns as f64).sum::<f64>() / registrations.len() as f64;
    let figure = |name: &str, of: &dyn Fn(&Split<'_>) -> Sample| {
        // The lower and upper bounds of the repeat apply to the whole phase, not to a part of it.
        let of =
            |split: &Split<'_>| Repeated { range: Range::default(), ..split.repeat.judged(name, of(split)) };
        Figure::of(splits.iter().map(of).collect())
    };
    let cpu = |part: Part| figure(value::CORES, &|split| cores(split.repeat, part(split)).into());
    let rate = |part: Part| figure(value::THROUGHPUT, &|split| part(split).rate_per_s().into());
    let p99 = |part: Part| {
        let of = |split: &Split<'_>| split.repeat.judged_part("p99", 0.99, part(split), &CAUSED);
        Figure::of(splits.iter().map(of).collect())
    };
    let (during, rest): (Part, Part) = (|split| &split.during, |split| &split.rest);
    let [cpu_during, cpu_rest] = [cpu(during), cpu(rest)];
    let [p99_during, p99_rest] = [p99(during), p99(rest)];
    let cpu_ratio = ratio(&cpu_during, &cpu_rest).headline_if(true);
    let p99_ratio = ratio(&p99_during, &p99_rest);
    let throughput_ratio = ratio(&rate(during), &rate(rest));
    let cpu_each = figure(value::CORES, &|split| split.cpu_s_each().into());
    let count = registrations.len() as u64;
    let sentence = format!(
        "{}, {}: during {} of all routes ({} each), compared with the rest of the phase: CPU {} times, \
         throughput {} times, p99 {} times.",
        with_axes(gateway, group.axes),
        group.load,
        counted(count, "registration"),
        counted(messages, "message"),
        times(&cpu_ratio),
        times(&throughput_ratio),
        times(&p99_ratio),
    );
    let values = vec![
        Value::Missing,
        Value::count(count),
        Value::count(messages),
        Value::Number { number: Some(took_ns), words: Some(time_ns(took_ns)) },
        Value::figure(&cpu_during),
        Value::figure(&cpu_rest),
        Value::figure(&cpu_ratio),
        Value::figure(&cpu_each),
        Value::figure(&throughput_ratio),
        Value::figure(&p99_during),
        Value::figure(&p99_rest),
        Value::figure(&p99_ratio),
    ];
    let (load, axes) = (group.load.to_owned(), group.axes.clone());
    Some((Row { gateway: gateway.to_owned(), load, axes, values }, sentence))
}

fn times(ratio: &Figure) -> String {
    with_interval(ratio, number)
}

/// Splits a repeat into the seconds during registrations and the rest. `None` if one of the two is empty, or if the
/// load has steps.
fn split<'a>(repeat: &'a Repeat<'a>) -> Option<Split<'a>> {
    if !repeat.measurement.record.steps.is_empty() {
        return None;
    }
    let is_one = |event: &&Event| event.kind == Registration::KIND && event.sustained;
    let all: Vec<(f64, Registration)> = repeat
        .measurement
        .events
        .iter()
        .filter(is_one)
        .filter_map(|event| Some((event.t_s, serde_json::from_value(event.details.clone()).ok()?)))
        .collect();
    let moments: Vec<(f64, f64)> =
        all.iter().map(|(t_s, registration)| (*t_s, registration.took_ns as f64 / 1e9)).collect();
    let sustained = of_phase(repeat.measurement).0.into_iter().filter(|second| second.sustained);
    let (during, rest) = Seconds(sustained.collect()).split_near(&moments);
    let registrations = all.iter().map(|(_, registration)| *registration).collect();
    let is_split = !during.0.is_empty() && !rest.0.is_empty();
    is_split.then_some(Split { repeat, registrations, during, rest })
}

/// Mean cores of the data plane in `seconds`; `None` if nothing was sampled in `seconds`.
fn cores(repeat: &Repeat<'_>, seconds: &Seconds<'_>) -> Option<f64> {
    let data: Vec<&str> = repeat
        .cell
        .parts
        .iter()
        .filter(|part| part.role == Role::Data)
        .map(|part| part.name.as_str())
        .collect();
    let is_in =
        |t_s: f64| seconds.0.iter().any(|second| (second.t_s..second.t_s + second.length_s).contains(&t_s));
    let sampled: Vec<f64> = repeat
        .measurement
        .series
        .iter()
        .filter(|sample| is_in(sample.t_s))
        .filter_map(|sample| data.iter().map(|name| sample.cpu_cores.get(*name).copied()).sum())
        .collect();
    (!sampled.is_empty()).then(|| sampled.iter().sum::<f64>() / sampled.len() as f64)
}
