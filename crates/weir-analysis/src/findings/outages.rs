//! Sentences about gateways that use a service: the impact on clients while the service was down, compared with the
//! time before.

use std::collections::BTreeSet;

use weir_results::{FailedRegistration, FaultAction, FaultTarget, is_baseline};

use super::failover::{P99, Stage, disturbed, stages, throughput};
use crate::figures::figure::Figure;
use crate::figures::quantity::{count, counted, rate, time_ns};
use crate::figures::seconds::Seconds;
use crate::points::axes::with_axes;
use crate::points::conclusions::with_interval;
use crate::points::grouping::Group;
use crate::points::measured::Repeat;

/// An outage of a service in one repeat: from the fault until the service returns.
struct Outage<'a> {
    repeat: &'a Repeat<'a>,
    service: &'a str,
    action: FaultAction,
    /// The seconds from the fault to the return of the service, or to the end of the load.
    away: Seconds<'a>,
    /// The seconds before the first fault of the load.
    before: Seconds<'a>,
}

/// A sentence for each outage of a service that a gateway uses.
pub(super) fn sentences(group: &Group<'_>, gateway: &str) -> Vec<String> {
    let Some(repeats) = group.repeats(gateway) else { return Vec::new() };
    let all: Vec<Vec<Outage<'_>>> = repeats.iter().map(outages).collect();
    let most = all.iter().map(Vec::len).max().unwrap_or(0);
    let who = with_axes(gateway, group.axes);
    let sentence = |place: usize| {
        let here: Vec<&Outage<'_>> = all.iter().filter_map(|outages| outages.get(place)).collect();
        Some(conclude(&who, here.first()?, &here))
    };
    (0..most).filter_map(sentence).collect()
}

/// For each failed service that some gateways do not use, a sentence that names these gateways.
pub(super) fn without(group: &Group<'_>) -> Vec<String> {
    let faulted = |gateway: &str| -> BTreeSet<&str> {
        let repeats = group.repeats(gateway).into_iter().flat_map(|repeats| repeats.iter());
        let faults = repeats.flat_map(|repeat| &repeat.measurement.faults);
        faults.filter_map(|fault| fault.target.service()).collect()
    };
    let gateways = || group.rows.iter().map(|(name, _)| *name).filter(|name| !is_baseline(name));
    let services: BTreeSet<&str> = gateways().flat_map(faulted).collect();
    let sentence = |service: &str| {
        let without: Vec<&str> = gateways().filter(|name| !faulted(name).contains(service)).collect();
        let why = match without.as_slice() {
            [] => return None,
            [_] => "it does not use",
            _ => "they do not use",
        };
        Some(format!("{}: not affected, because {why} {service}.", without.join(", ")))
    };
    services.into_iter().filter_map(sentence).collect()
}

/// The outages of services in a repeat, in chronological order.
fn outages<'a>(repeat: &'a Repeat<'a>) -> Vec<Outage<'a>> {
    let stages = stages(repeat.measurement);
    let begun = stages.iter().enumerate().filter_map(|(place, stage)| {
        let fault = stage.fault.filter(|fault| fault.action != FaultAction::Return)?;
        let service = fault.target.service()?;
        let returned = |stage: &&Stage<'_>| {
            let is_return = |target: &FaultTarget| *target == fault.target;
            !stage.fault.is_some_and(|next| next.action == FaultAction::Return && is_return(&next.target))
        };
        Some(Outage {
            repeat,
            service,
            action: fault.action,
            away: joined(stages[place..].iter().take_while(returned)),
            before: joined(stages[..1].iter()),
        })
    });
    begun.collect()
}

fn joined<'a, 'b: 'a>(stages: impl Iterator<Item = &'a Stage<'b>>) -> Seconds<'b> {
    Seconds(stages.flat_map(|stage| stage.seconds.0.iter().copied()).collect())
}

/// The seconds during an outage, or the seconds before it, in all repeats.
struct Part<'a>(Vec<(&'a Repeat<'a>, &'a Seconds<'a>)>);

impl Part<'_> {
    /// Failed requests out of all finished requests: `3 of 600`.
    fn errors(&self) -> String {
        format!("{} of {}", count(self.wrong()), count(self.ended()))
    }

    fn wrong(&self) -> u64 {
        self.0.iter().map(|(_, seconds)| seconds.wrong()).sum()
    }

    fn ended(&self) -> u64 {
        self.0.iter().map(|(_, seconds)| seconds.ended()).sum()
    }

    fn p99(&self) -> String {
        let repeated = self.0.iter().map(|(repeat, seconds)| disturbed(repeat, P99, seconds));
        words(&Figure::of(repeated.collect()), time_ns)
    }

    fn throughput(&self) -> String {
        words(&throughput(self.0.iter().copied()), rate)
    }
}

fn words(figure: &Figure, format: fn(f64) -> String) -> String {
    match figure.beyond_timeout {
        true => "> timeout".to_owned(),
        false => with_interval(figure, format),
    }
}

fn conclude(who: &str, first: &Outage<'_>, repeats: &[&Outage<'_>]) -> String {
    let away = Part(repeats.iter().map(|outage| (outage.repeat, &outage.away)).collect());
    let before = Part(repeats.iter().map(|outage| (outage.repeat, &outage.before)).collect());
    let how = match first.action {
        FaultAction::Stall => "stalled",
        _ => "down",
    };
    let during = format!("while {} was {how}", first.service);
    let has_before = before.ended() > 0;
    let mut sentence = match away.wrong() {
        0 => format!("{who} kept serving {during}: 0 of {} requests failed", count(away.ended())),
        _ if has_before => {
            format!("{who}: {} requests failed {during}, {} before", away.errors(), before.errors())
        }
        _ => format!("{who}: {} requests failed {during}", away.errors()),
    };
    let p99 = ("p99", away.p99(), before.p99());
    for (name, now, then) in [p99, ("throughput", away.throughput(), before.throughput())] {
        sentence.push_str(&format!("; {name} {now}"));
        if has_before {
            sentence.push_str(&format!(" ({then} before)"));
        }
    }
    let failed: usize = repeats.iter().map(|outage| outage.failed_registrations()).sum();
    if failed > 0 {
        sentence.push_str(&format!("; {} failed", counted(failed as u64, "re-registration")));
    }
    sentence + "."
}

impl Outage<'_> {
    /// Number of failed attempts to register all routes again during the outage.
    fn failed_registrations(&self) -> usize {
        let (Some(first), Some(last)) = (self.away.0.first(), self.away.0.last()) else { return 0 };
        let time = first.t_s..last.t_s + last.length_s;
        let events = self.repeat.measurement.events.iter();
        events.filter(|event| event.kind == FailedRegistration::KIND && time.contains(&event.t_s)).count()
    }
}
