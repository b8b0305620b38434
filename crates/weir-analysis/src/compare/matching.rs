//! Matches the series of A and B, checks their conditions, and collects notes.

use weir_results::Reason;

use super::apart;
use super::dataset::{Dataset, RunSource, Series, Source};
use super::difference::{self, Difference, GatewaySide};
use super::measure::{Margins, Measure};
use super::{CompareError, Side};
use crate::figures::figure::{Figure, Repeated, Sample};
use crate::figures::quantity::counted;

/// The series of A and B, matched with each other.
pub(super) struct Matched<'a> {
    pub(super) pairs: Vec<(&'a Series, &'a Series)>,
    /// Series only in A.
    pub(super) only_a: Vec<&'a Series>,
    /// Series only in B.
    pub(super) only_b: Vec<&'a Series>,
}

/// Returns the conditions of measurement in which A and B differ. Fails if A and B are the same.
pub(super) fn conditions(a: &Dataset, b: &Dataset) -> Result<Vec<Difference>, CompareError> {
    let maker = |dataset: &Dataset| match dataset.source {
        Source::Run(_) => "weir",
        Source::Foreign { program, .. } => program,
    };
    if maker(a) != maker(b) {
        let made_by = |dataset: &Dataset| Some(maker(dataset).to_owned());
        return Ok(vec![Difference { field: "measured by".into(), a: made_by(a), b: made_by(b) }]);
    }
    match (&a.source, &b.source) {
        (Source::Run(of_a), Source::Run(of_b)) if of_a.run.id == of_b.run.id => {
            // Within one run, A and B must be two different gateways.
            match of_a.gateway.as_ref().zip(of_b.gateway.as_ref()) {
                Some((of_a, of_b)) if of_a != of_b => Ok(Vec::new()),
                _ => Err(CompareError::Same(same_run(of_a, of_b))),
            }
        }
        (Source::Run(of_a), Source::Run(of_b)) => Ok(difference::of_scenarios(&of_a.run, &of_b.run)),
        (Source::Foreign { files, .. }, Source::Foreign { files: others, .. }) if files == others => {
            Err(CompareError::Same(files.join(", ")))
        }
        _ => Ok(Vec::new()),
    }
}

/// Names the run, or the gateway of a run, that is both A and B.
fn same_run(a: &RunSource, b: &RunSource) -> String {
    match a.gateway.as_ref().or(b.gateway.as_ref()) {
        Some(gateway) => format!("gateway {gateway} of run {}", a.run.id),
        None => format!("run {}", a.run.id),
    }
}

/// Whether A and B come from one run, so that their repeats were measured in the same blocks.
pub(super) fn is_one_run(a: &Dataset, b: &Dataset) -> bool {
    a.run().zip(b.run()).is_some_and(|(a, b)| a.run.id == b.run.id)
}

/// Pairs each series of B with the series of A that has the same gateway, axes and load. If A and B each name one
/// gateway, the gateways may differ. If only one of A and B is a run of weir, each must have exactly one series.
///
/// Some series contain only findings, such as starts, faults and searches. They are paired in the same way, but never
/// with the series of a load.
pub(super) fn matched<'a>(
    a: &'a Dataset,
    b: &'a Dataset,
    load: Option<&str>,
) -> Result<Matched<'a>, CompareError> {
    let is_meant = |series: &&Series| load.is_none_or(|load| series.load == load || series.load.is_empty());
    let loads = |of: &'a Dataset| -> Vec<&'a Series> {
        of.own().filter(|series| series.is_load()).filter(is_meant).collect()
    };
    let findings = |of: &'a Dataset| -> Vec<&'a Series> {
        let is_meant = |series: &&Series| load.is_none_or(|load| series.load == load);
        of.own().filter(|series| !series.is_load()).filter(is_meant).collect()
    };
    let (of_a, of_b) = (loads(a), loads(b));
    let (found_a, found_b) = (findings(a), findings(b));
    if let Some(load) = load {
        has_load(a, b, load)?;
    }
    let names_gateway = |dataset: &Dataset| dataset.run().is_some_and(|run| run.gateway.is_some());
    let ignores_gateway = names_gateway(a) && names_gateway(b);
    if a.run().is_none() != b.run().is_none() {
        let (label, several) = if of_a.len() == 1 { (&b.label, &of_b) } else { (&a.label, &of_a) };
        return match (of_a.as_slice(), of_b.as_slice()) {
            ([one], [other]) => {
                Ok(Matched { pairs: vec![(one, other)], only_a: Vec::new(), only_b: Vec::new() })
            }
            _ => Err(CompareError::Several { label: label.clone(), names: names(several) }),
        };
    }
    // If a load is requested by name, it also matches an unnamed load of the other dataset.
    let is_same_load = |one: &Series, other: &Series| {
        one.load == other.load || load.is_some() && (one.load.is_empty() || other.load.is_empty())
    };
    let is_same_place = |one: &Series, other: &Series| {
        (ignores_gateway || one.gateway == other.gateway) && one.axes == other.axes
    };
    let load_of_a = |other: &Series| {
        of_a.iter().find(|one| is_same_place(one, other) && is_same_load(one, other)).copied()
    };
    let found_of_a = |other: &Series| {
        found_a.iter().find(|one| is_same_place(one, other) && one.load == other.load).copied()
    };
    let of_loads = of_b.iter().filter_map(|other| Some((load_of_a(other)?, *other)));
    let of_findings = found_b.iter().filter_map(|other| Some((found_of_a(other)?, *other)));
    let pairs: Vec<(&Series, &Series)> = of_loads.chain(of_findings).collect();
    if pairs.is_empty() {
        let has_loads = !of_a.is_empty() || !of_b.is_empty();
        return Err(match has_loads {
            true => apart::error(&of_a, &of_b, ignores_gateway),
            false => apart::error(&found_a, &found_b, ignores_gateway),
        });
    }
    let (mut only_a, mut only_b) = ([of_a, found_a].concat(), [of_b, found_b].concat());
    only_a.retain(|series| !pairs.iter().any(|(known, _)| std::ptr::eq(*known, *series)));
    only_b.retain(|series| !pairs.iter().any(|(_, known)| std::ptr::eq(*known, *series)));
    Ok(Matched { pairs, only_a, only_b })
}

/// Checks that A or B has a load named `load`. Datasets whose loads have no names pass.
fn has_load(a: &Dataset, b: &Dataset, load: &str) -> Result<(), CompareError> {
    let named = a.own().chain(b.own()).filter(|series| !series.load.is_empty());
    let mut names: Vec<&str> = named.map(|series| series.load.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() || names.contains(&load) {
        return Ok(());
    }
    Err(CompareError::NoLoad { load: load.to_owned(), names: apart::few(&names, ", ") })
}

impl Matched<'_> {
    /// Lists the series that only A or only B has. Omits a series that holds only findings if another series with the
    /// same gateway and load is compared, or is listed with values of a load.
    pub(super) fn unmatched(&self, a: &Dataset, b: &Dataset) -> Vec<String> {
        let pairs_of_a: Vec<&Series> = self.pairs.iter().map(|(one, _)| *one).collect();
        let pairs_of_b: Vec<&Series> = self.pairs.iter().map(|(_, other)| *other).collect();
        let only = |of: &Dataset, all: &[&Series], compared: &[&Series]| -> Vec<String> {
            let is_listed = |series: &Series| {
                let is_same = |other: &&Series| other.gateway == series.gateway && other.load == series.load;
                compared.iter().any(is_same) || all.iter().filter(|other| other.is_load()).any(is_same)
            };
            let meant = all.iter().filter(|series| series.is_load() || !is_listed(series));
            meant.map(|series| format!("only in {}: {}", of.label, words(series))).collect()
        };
        [only(a, &self.only_a, &pairs_of_a), only(b, &self.only_b, &pairs_of_b)].concat()
    }

    /// Load points where B failed and A did not, in words: every repeat of B has too many errors, or the cells of B
    /// failed.
    pub(super) fn failed(&self, a: &Dataset, b: &Dataset) -> Vec<String> {
        let (of_a, of_b) = (&a.label, &b.label);
        let mut failed = Vec::new();
        for (one, other) in &self.pairs {
            if one.has_answers() && !other.has_answers() {
                let words = other.words();
                failed.push(format!("{words}: {of_b} fails in every repeat, but {of_a} does not"));
            }
        }
        // The values of a capacity search are findings of a load, not values of a load point.
        let has_capacity = |one: &Series| {
            let is_measured = |(_, figure): &(Measure, Figure)| figure.valid > 0;
            !one.is_load() && !one.load.is_empty() && one.figures.iter().any(is_measured)
        };
        for one in self.only_a.iter().filter(|one| one.has_answers() || has_capacity(one)) {
            if b.run().is_some_and(|run| run.has_failed(&one.gateway, &one.axes)) {
                failed.push(format!(
                    "{}: the cells of {of_b} failed, but the cells of {of_a} did not",
                    one.words()
                ));
            }
        }
        failed
    }

    /// Describes values of findings that A has and B lacks, for example because a gateway in B never recovers, or a
    /// search finds no capacity. Reports only metrics for which `is_open` returns true: the caller selects metrics
    /// with a verdict other than *worse*.
    pub(super) fn not_reached(
        &self,
        a: &Dataset,
        b: &Dataset,
        is_open: impl Fn(usize, Measure) -> bool,
    ) -> Vec<String> {
        let mut words = Vec::new();
        for (place, (one, other)) in self.pairs.iter().enumerate() {
            let measures = one.figures.iter().filter(|(measure, _)| measure.is_of_finding());
            for (measure, of_a) in measures.filter(|(measure, _)| is_open(place, *measure)) {
                let has_value =
                    |repeated: &&Repeated| repeated.reasons.is_empty() && repeated.value().is_some();
                let values = of_a.repeats.iter().filter(has_value).count();
                let missed = other.figure(*measure).and_then(|of_b| missed(*measure, of_b));
                if let Some(missed) = missed.filter(|_| values > 0) {
                    words.push(format!(
                        "{}: {}: {missed} of {}, but {} has {}",
                        other.words(),
                        measure.name(),
                        b.label,
                        a.label,
                        counted(values as u64, "value")
                    ));
                }
            }
        }
        words
    }
}

/// States in how many repeats there is no value: `no capacity found in 5 of 6 repeats`. Repeats that the rig or the
/// host made invalid are not counted. `None` if a repeat has a value.
fn missed(measure: Measure, figure: &Figure) -> Option<String> {
    let words = |repeated: &Repeated| match repeated.sample {
        Sample::BeyondTimeout => Some(measure.beyond_words()),
        Sample::Missing => measure.absent_words(),
        Sample::Value(_) => None,
    };
    if figure.repeats.iter().any(|repeated| repeated.value().is_some()) {
        return None;
    }
    let own = figure.repeats.iter().filter(|repeated| repeated.reasons.iter().all(is_of_gateway));
    let said: Vec<&str> = own.filter_map(words).collect();
    let first = said.first()?;
    Some(format!("{first} in {} of {}", said.len(), counted(figure.repeats.len() as u64, "repeat")))
}

/// Whether this reason is caused by the gateway, not by the rig or the host.
fn is_of_gateway(reason: &Reason) -> bool {
    matches!(reason, Reason::Errors | Reason::Overloaded | Reason::Throttled | Reason::NotStationary)
}

/// Describes a series by gateway, load and axes; for a finding, also by its metrics.
fn words(series: &Series) -> String {
    if series.is_load() {
        return series.words();
    }
    let metrics: Vec<&str> = series.figures.iter().map(|(measure, _)| measure.name()).collect();
    format!("{} ({})", series.words(), metrics.join(", "))
}

/// The margins: from the question, else from A's scenario, else the defaults.
pub(super) fn margins(a: &Dataset, asked: &Margins) -> Margins {
    let of_scenario = a.run().map(|run| Margins::with(&run.run.thresholds.margins)).unwrap_or_default();
    of_scenario.overridden_by(asked)
}

/// Describes a dataset: label, source and run.
pub(super) fn side(dataset: &Dataset) -> Side {
    let (source, run) = match &dataset.source {
        Source::Run(of) => {
            let gateway =
                of.gateway.as_ref().map(|gateway| format!(", gateway {gateway}")).unwrap_or_default();
            let versions: Vec<String> = of
                .gateways
                .iter()
                .filter(|known| of.gateway.as_ref().is_none_or(|wanted| *wanted == known.name))
                .flat_map(|known| known.parts.iter().filter(|part| part.role == weir_results::Role::Data))
                .map(|part| format!("{} {}", part.name, part.version))
                .collect();
            let versions =
                if versions.is_empty() { String::new() } else { format!(" ({})", versions.join(", ")) };
            (format!("run {}, {}{gateway}{versions}", of.run.id, of.run.name), Some(of.run.id.clone()))
        }
        Source::Foreign { program, files, .. } => {
            (format!("{program}: {}; provenance unknown", files.join(", ")), None)
        }
    };
    Side { label: dataset.label.clone(), source, run }
}

/// Differences between the compared gateways.
pub(super) fn gateways(a: &Dataset, b: &Dataset, pairs: &[(&Series, &Series)]) -> Vec<Difference> {
    let (Some(of_a), Some(of_b)) = (a.run(), b.run()) else { return Vec::new() };
    let mut names: Vec<[&str; 2]> = Vec::new();
    for (one, other) in pairs {
        let pair = [one.gateway.as_str(), other.gateway.as_str()];
        if !names.contains(&pair) {
            names.push(pair);
        }
    }
    let differ = |names: &[&str; 2]| {
        let [name_a, name_b] = *names;
        difference::of_gateways(
            GatewaySide { run: &of_a.run, parts: of_a.parts(name_a), name: name_a },
            GatewaySide { run: &of_b.run, parts: of_b.parts(name_b), name: name_b },
        )
    };
    names.iter().flat_map(differ).collect()
}

/// Differences between the hosts and between the rigs of A and B.
pub(super) fn environment(a: &Dataset, b: &Dataset) -> Vec<Difference> {
    let (Some(of_a), Some(of_b)) = (a.run(), b.run()) else { return Vec::new() };
    let mut differences = difference::of_environments(&of_a.run.manifest, &of_b.run.manifest);
    let first =
        |run: &super::RunSource| run.gateways.first().map(|gateway| gateway.name.clone()).unwrap_or_default();
    differences.extend(difference::of_rigs(of_a.parts(&first(of_a)), of_b.parts(&first(of_b))));
    differences
}

/// Warnings about results of other programs, such as failed requests.
pub(super) fn warnings(a: &Dataset, b: &Dataset) -> Vec<String> {
    let of_side = |dataset: &Dataset| -> Vec<String> {
        let Source::Foreign { warnings, .. } = &dataset.source else { return Vec::new() };
        warnings.iter().map(|warning| format!("{}: {warning}", dataset.label)).collect()
    };
    [of_side(a), of_side(b)].concat()
}

/// Notes about how the comparison can be read: differing conditions, missing cells, unknown provenance.
pub(super) fn notes(a: &Dataset, b: &Dataset, is_forced: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if is_forced {
        notes.push("Forced: the conditions differ, which may explain differences in the results.".to_owned());
    }
    for dataset in [a, b] {
        let label = &dataset.label;
        if let Some(run) = dataset.run().filter(|run| run.cells_missing > 0) {
            notes.push(format!(
                "{label}: in run {}, {} did not run.",
                run.run.id,
                counted(run.cells_missing as u64, "cell")
            ));
        }
        if let Source::Foreign { program, notes: of_reading, .. } = &dataset.source {
            notes.push(format!(
                "{label}: provenance unknown. {program}'s files contain neither conditions nor verdicts, so \
                every repeat counts as valid unless its requests failed."
            ));
            notes.extend(of_reading.iter().map(|note| format!("{label}: {note}")));
        }
    }
    if is_one_run(a, b) {
        notes.push(
            "A and B are from one run: weir compares them block by block, and both have the same direct baseline."
                .into(),
        );
    } else if a.run().is_some() && b.run().is_some() {
        notes.push(
            "The runs were measured one after the other, so changes of the host between them affect the \
            results. To interleave both versions, measure them as gateways of one run: `weir compare RUN:old \
            RUN:new`."
                .into(),
        );
    }
    notes
}

fn names(series: &[&Series]) -> String {
    let names: Vec<String> = series.iter().map(|series| series.words()).collect();
    apart::few(&names, "; ")
}
