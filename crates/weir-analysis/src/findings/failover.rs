//! How faults affect clients: errors and latency, from each fault to the next.

use serde::Serialize;
use weir_results::{FaultAction, FaultEvent, FaultTarget, Measurement, Reason};

use super::model::{Column, Finding, KEEP, Place, Row, Table, Unit, Value};
use super::{Finder, Former, Measured, outages};
use crate::figures::figure::{Figure, Range, Repeated};
use crate::figures::quantity::count;
use crate::figures::seconds::{Lasts, Seconds, of_phase};
use crate::points::axes::{Axes, with_axes};
use crate::points::grouping::Group;
use crate::points::measured::{Repeat, Repeats};
use crate::verdicts::reasons::{Metric, value};

/// Results of faults of the upstream and of services.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Faults {
    /// Effects of the faults on each gateway at each load with faults, in the order of load points.
    pub courses: Vec<FaultCourse>,
    /// Sentences about each entry of `courses`.
    pub conclusions: Vec<String>,
}

/// A gateway during a load with faults.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultCourse {
    /// The gateway's name.
    pub gateway: String,
    /// Values of the axes.
    pub axes: Axes,
    /// Name of the load.
    pub load: String,
    /// Stages from each fault to the next. The stage before the first fault is listed only if requests were sent in it.
    pub stages: Vec<FaultStage>,
}

/// A stage of a load, from one fault to the next, in whole seconds of the sustained phase. Its first second is the one
/// in which its fault occurs. The last stage also includes the drain after the phase. An error counts in the second in
/// which the generator detects it. A timed-out request counts in the second in which its timeout expires.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultStage {
    /// The fault that starts the stage; `None` before the first fault.
    pub fault: Option<StageFault>,
    /// Number of requests sent, in all repeats together.
    pub sent: u64,
    /// Number of requests that completed, failed, timed out or were dropped, in all repeats together. This number can
    /// exceed `sent`, because dropped requests were never sent.
    pub ended: u64,
    /// Number of responses with a status of 400 or more, in all repeats together.
    pub unexpected: u64,
    /// Number of requests without a complete response (failed, timed out, dropped), in all repeats together.
    pub lost: u64,
    /// Errors divided by finished requests.
    pub error_share: Figure,
    /// Time from the fault to the end of the last second with an error, seconds: the maximum of all repeats. Zero
    /// without errors. `None` if the errors of a repeat last until the end of the stage.
    pub wrong_for_s: Option<f64>,
    /// Complete responses per second.
    pub throughput_per_s: Figure,
    /// p50 of the latency, nanoseconds; lost requests rank as the slowest.
    pub p50_ns: Figure,
    /// p99 of the latency, nanoseconds; lost requests rank as the slowest.
    pub p99_ns: Figure,
}

/// The fault that starts a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageFault {
    /// The replica of the upstream, or the service, that the fault affects.
    #[serde(flatten)]
    pub target: FaultTarget,
    /// What happens to the target.
    pub action: FaultAction,
    /// Time of the fault, seconds from the start of the sustained phase: the mean of all repeats.
    pub at_s: f64,
}

/// The time from one fault to the next in one repeat. See [`FaultStage`].
pub(super) struct Stage<'a> {
    pub(super) fault: Option<&'a FaultEvent>,
    pub(super) seconds: Seconds<'a>,
}

/// Finds the effects of faults; see [`Faults`].
pub(super) const FINDER: Finder = Finder { key: "failover", columns: &[&STAGE], find };

/// Error shares of at most this value are treated as equal.
const ERRORS_RESOLUTION: f64 = 0.001;

const INTRO: &str = "\
Each row covers the time from one fault to the next, in whole seconds, starting with the second of the fault. Counts \
cover all repeats. An error counts in the second in which the generator detects it. A timed-out request therefore \
counts one timeout after its start, which can be after the server has returned. Times of faults are from the start of \
the sustained phase. Direct cells have no faults, because the baseline cannot use another server and needs no service.";

static STAGE: [Column; 10] = [
    Column::of("from", "From", Unit::Text, KEEP),
    Column::of("at", "At", Unit::Seconds, 6),
    Column::of("sent", "Sent", Unit::Count, 5),
    Column::of("unexpected", "Unexpected status", Unit::Count, 7).lower(),
    Column::of("lost", "No response", Unit::Count, 7).lower(),
    Column::of("errors", "Errors", Unit::Share, KEEP)
        .lower()
        .compared("failover.errors", 0.25)
        .above(ERRORS_RESOLUTION),
    Column::of("last_error", "Last error after", Unit::Seconds, KEEP).lower(),
    Column::of("throughput", "Throughput", Unit::PerSecond, 3).higher().compared("failover.throughput", 0.10),
    Column::of("p50", "p50", Unit::Nanoseconds, 4).lower().compared("failover.p50", 0.10),
    Column::of("p99", "p99", Unit::Nanoseconds, 8).lower().compared("failover.p99", 0.25),
];

fn find(measured: &Measured<'_>, former: &mut Former) -> Option<Finding> {
    let faults = faults(measured.groups)?;
    let mut finding = Finding::new(FINDER.key, "Faults", INTRO);
    finding.sentences.clone_from(&faults.conclusions);
    for courses in faults.courses.chunk_by(|one, next| one.place() == next.place()) {
        let place = courses[0].place();
        finding.tables.push(Table {
            caption: format!("Between faults: {}", place.words()),
            columns: &STAGE,
            rows: courses.iter().flat_map(rows).collect(),
        });
        finding.breaks.push(place);
    }
    former.faults = Some(faults);
    Some(finding)
}

fn rows(course: &FaultCourse) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for stage in &course.stages {
        let mut axes = course.axes.clone();
        let same = rows.iter().filter(|row| row.values[0] == Value::text(stage.words())).count();
        let name = if same == 0 { stage.words() } else { format!("{} ({})", stage.words(), same + 1) };
        axes.insert("from".to_owned(), name.into());
        let (gateway, load) = (course.gateway.clone(), course.load.clone());
        rows.push(Row { gateway, load, axes, values: values(stage) });
    }
    rows
}

fn values(stage: &FaultStage) -> Vec<Value> {
    let exact = |number: Option<f64>, words: String| Value::Number { number, words: Some(words) };
    let last_error = match stage.wrong_for_s {
        _ if stage.wrong() == 0 => exact(Some(0.0), "–".to_owned()),
        Some(s) => exact(Some(s), format!("{s:.1} s")),
        None => exact(None, "until the end".to_owned()),
    };
    let errors = match stage.ended {
        0 => exact(None, "n/a".to_owned()),
        _ => Value::figure(&stage.error_share),
    };
    vec![
        Value::text(stage.words()),
        stage
            .fault
            .as_ref()
            .map_or(Value::Missing, |fault| exact(Some(fault.at_s), format!("{:.1} s", fault.at_s))),
        Value::count(stage.sent),
        Value::count(stage.unexpected),
        Value::count(stage.lost),
        errors,
        last_error,
        Value::figure(&stage.throughput_per_s),
        Value::figure(&stage.p50_ns),
        Value::figure(&stage.p99_ns),
    ]
}

/// The effects of the faults of a run; `None` if there were no faults.
fn faults(groups: &[Group<'_>]) -> Option<Faults> {
    let of = |group: &Group<'_>| -> Vec<FaultCourse> {
        let faulted =
            |repeats: &&Repeats<'_>| repeats.iter().any(|repeat| !repeat.measurement.faults.is_empty());
        let rows = group.rows.iter().filter(|(_, repeats)| faulted(&repeats));
        rows.map(|(gateway, repeats)| course(group, gateway, repeats)).collect()
    };
    let mut all = Faults::default();
    for group in groups {
        let courses = of(group);
        for course in &courses {
            all.conclusions.push(conclude(course));
            all.conclusions.extend(outages::sentences(group, &course.gateway));
        }
        for sentence in outages::without(group) {
            if !all.conclusions.contains(&sentence) {
                all.conclusions.push(sentence);
            }
        }
        all.courses.extend(courses);
    }
    (!all.courses.is_empty()).then_some(all)
}

impl FaultCourse {
    fn place(&self) -> Place {
        Place { axes: self.axes.clone(), load: self.load.clone() }
    }
}

impl FaultStage {
    /// Unexpected and lost requests.
    pub fn wrong(&self) -> u64 {
        self.unexpected + self.lost
    }

    /// The start of this stage in words: a fault, such as `replica 1 killed`, or `before the first fault`.
    pub fn words(&self) -> String {
        match &self.fault {
            Some(fault) => fault_words(&fault.target, fault.action),
            None => "before the first fault".to_owned(),
        }
    }
}

/// A fault in words: `replica 1 killed`.
pub(super) fn fault_words(target: &FaultTarget, action: FaultAction) -> String {
    format!("{target} {}", action.done())
}

fn course(group: &Group<'_>, gateway: &str, repeats: &Repeats<'_>) -> FaultCourse {
    let staged: Vec<(&Repeat<'_>, Vec<Stage<'_>>)> =
        repeats.iter().map(|repeat| (repeat, stages(repeat.measurement))).collect();
    let most = staged.iter().map(|(_, stages)| stages.len()).max().unwrap_or(0);
    let stages = (0..most).map(|place| {
        let here = staged.iter().filter_map(|(repeat, stages)| Some((*repeat, stages.get(place)?)));
        stage(&here.collect::<Vec<_>>())
    });
    FaultCourse {
        gateway: gateway.to_owned(),
        axes: group.axes.clone(),
        load: group.load.to_owned(),
        // If the first fault is at the start, the stage before it is empty and left out.
        stages: stages.filter(|stage| stage.fault.is_some() || stage.sent > 0).collect(),
    }
}

/// Combines the results of one [`Stage`] from all repeats.
fn stage(repeats: &[(&Repeat<'_>, &Stage<'_>)]) -> FaultStage {
    let total =
        |of: fn(&Seconds<'_>) -> u64| repeats.iter().map(|(_, stage)| of(&stage.seconds)).sum::<u64>();
    let figure = |quantile: (&str, f64)| {
        let repeated = repeats.iter().map(|(repeat, stage)| disturbed(repeat, quantile, &stage.seconds));
        Figure::of(repeated.collect())
    };
    let error_share = repeats.iter().map(|(repeat, stage)| {
        let Seconds(seconds) = &stage.seconds;
        let share = stage.seconds.wrong() as f64 / stage.seconds.ended() as f64;
        let share = Some(share).filter(|share| !seconds.is_empty() && share.is_finite());
        // Host noise does not change counts. They are invalid only if values contradict each other.
        let implausible = repeat.reasons(Metric::Latency).contains(&Reason::Implausible);
        let reasons = implausible.then_some(Reason::Implausible).into_iter().collect();
        let repeat = repeat.cell.key.repeat;
        Repeated { repeat, sample: share.into(), reasons, range: Range::default() }
    });
    let error_share = Figure::of_difference(error_share.collect()).not_below(0.0);
    let mut wrong_for_s = repeats.iter().map(|(_, stage)| stage.wrong_for_s());
    FaultStage {
        fault: stage_fault(repeats),
        sent: total(|seconds| seconds.sent()),
        ended: total(|seconds| seconds.ended()),
        unexpected: total(|seconds| seconds.unexpected()),
        lost: total(|seconds| seconds.lost()),
        error_share,
        wrong_for_s: wrong_for_s.try_fold(0.0, |longest: f64, next| Some(longest.max(next?))),
        throughput_per_s: throughput(repeats.iter().map(|(repeat, stage)| (*repeat, &stage.seconds))),
        p50_ns: figure(P50),
        p99_ns: figure(P99),
    }
}

fn stage_fault(repeats: &[(&Repeat<'_>, &Stage<'_>)]) -> Option<StageFault> {
    let first = repeats.first()?.1.fault?;
    let at_s = |(repeat, stage): &(&Repeat<'_>, &Stage<'_>)| {
        let phase = repeat.measurement.record.seconds.iter().find(|second| second.sustained);
        Some(stage.fault?.t_s - phase.map_or(0.0, |second| second.t_s))
    };
    let times: Vec<f64> = repeats.iter().filter_map(at_s).collect();
    let at_s = times.iter().sum::<f64>() / times.len().max(1) as f64;
    Some(StageFault { target: first.target.clone(), action: first.action, at_s })
}

/// The quantile p50: its name, and its position from 0 to 1.
pub(super) const P50: (&str, f64) = ("p50", 0.5);
/// The quantile p99: its name, and its position from 0 to 1.
pub(super) const P99: (&str, f64) = ("p99", 0.99);

/// The latency quantile `share` (0 to 1) in the seconds of `part`. The load has faults or a burst of silent
/// connections. Reasons in `CAUSED` do not make the latency invalid.
pub(super) fn disturbed(repeat: &Repeat<'_>, (name, share): (&str, f64), part: &Seconds<'_>) -> Repeated {
    repeat.judged_part(name, share, part, &CAUSED)
}

/// Reasons for invalidity expected with faults.
const CAUSED: [Reason; 3] = [Reason::Errors, Reason::Overloaded, Reason::NotStationary];

/// Complete responses per second in the given seconds of each repeat. The drain is left out.
pub(super) fn throughput<'a>(parts: impl Iterator<Item = (&'a Repeat<'a>, &'a Seconds<'a>)>) -> Figure {
    let repeated = parts.map(|(repeat, Seconds(seconds))| {
        let sustained = seconds.iter().copied().filter(|second| second.sustained).collect();
        let mut judged = repeat.judged(value::THROUGHPUT, Seconds(sustained).rate_per_s().into());
        judged.reasons.retain(|reason| !CAUSED.contains(reason));
        // The lower and upper bounds of the repeat apply to the whole phase, not to a part of it.
        Repeated { range: Range::default(), ..judged }
    });
    Figure::of_difference(repeated.collect()).not_below(0.0)
}

/// The stages of a measurement: the seconds before the first fault, then the seconds from each fault to the next. The
/// last stage includes the drain.
pub(super) fn stages(measurement: &Measurement) -> Vec<Stage<'_>> {
    let faults = &measurement.faults;
    let mut stages: Vec<Stage<'_>> = std::iter::once(None)
        .chain(faults.iter().map(Some))
        .map(|fault| Stage { fault, seconds: Seconds::default() })
        .collect();
    for second in of_phase(measurement).0 {
        let end_s = second.t_s + second.length_s;
        let begun = faults.iter().filter(|fault| fault.t_s < end_s).count();
        stages[begun].seconds.0.push(second);
    }
    stages
}

impl Stage<'_> {
    /// Time from the fault to the end of the last second with an error. In the stage before the first fault, the time
    /// starts at the first second of the stage. Zero if there are no errors; `None` if errors last until the end of the
    /// stage.
    fn wrong_for_s(&self) -> Option<f64> {
        let first_s = self.seconds.0.first().map_or(0.0, |second| second.t_s);
        let from_s = self.fault.map_or(first_s, |fault| fault.t_s);
        match self.seconds.disturbed(|_| false) {
            Lasts::Never => Some(0.0),
            Lasts::Until(last) => Some(last.t_s + last.length_s - from_s),
            Lasts::ToTheEnd => None,
        }
    }
}

/// States how many errors each stage has, and when the last error occurred.
fn conclude(course: &FaultCourse) -> String {
    let who = with_axes(&course.gateway, &course.axes);
    let total = |of: fn(&FaultStage) -> u64| count(course.stages.iter().map(of).sum());
    let stage = |stage: &FaultStage| {
        let (name, ended) = (stage.words(), count(stage.ended));
        match (stage.wrong(), stage.wrong_for_s) {
            (0, _) => format!("{name}: 0 of {ended}"),
            (wrong, Some(s)) => {
                format!("{name}: {} of {ended}, last error after {s:.1} s", count(wrong))
            }
            (wrong, None) => {
                format!("{name}: {} of {ended}, with errors until the end of this stage", count(wrong))
            }
        }
    };
    let stages = course.stages.iter().map(stage).collect::<Vec<_>>().join("; ");
    // A service name is not capitalized at the start of the sentence.
    let begins_with_service = course.stages.first().and_then(|stage| stage.fault.as_ref()?.target.service());
    format!(
        "{who}: {} of {} requests of load `{}` failed. {}.",
        total(FaultStage::wrong),
        total(|stage| stage.ended),
        course.load,
        if begins_with_service.is_some() { stages } else { capitalized(&stages) }
    )
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
