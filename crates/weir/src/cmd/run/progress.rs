//! Shows the progress of a run: on a terminal a bar with the remaining time, otherwise one line per cell.

use std::cell::Cell as Counter;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_analysis::capacity::{border_words, stopped_words};
use weir_analysis::{bound_name, quantity, reason_name};
use weir_lab::scenario::Scenario;
use weir_lab::{Observer, Progress, TimeEstimate};
use weir_report::escaped;
use weir_results::{Cell, CellKey, CellOutcome, Found, Measurement, last_words};

use super::super::output::note;

/// Returns the progress display on standard error: a bar on a terminal, otherwise plain lines.
pub(in crate::cmd) fn watcher(scenario: &Scenario, cells: usize) -> Box<dyn Observer> {
    let width = scenario.gateways.iter().map(|gateway| gateway.name.len()).max().unwrap_or(0);
    let baseline = if scenario.twin { weir_results::DIRECT_TWIN } else { weir_results::DIRECT };
    let lines = Lines { width: width.max(baseline.len()), retries: Counter::new(0) };
    if !std::io::stderr().is_terminal() {
        return Box::new(lines);
    }
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg}")
        .expect("the constant template is valid");
    let bar = ProgressBar::new(cells as u64).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    Box::new(Bar { lines, bar })
}

/// Formats a number of cells, like `3 cells`.
pub(super) fn cells(count: usize) -> String {
    weir_results::words::counted(count as u64, "cell")
}

/// Formats a duration for people: `45 s`, `3 min`, `1 h 20 min`.
pub(super) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Formats an estimated duration like `21 s to 62 s`, or `about 3 min` if minimum and maximum print the same text.
pub(super) fn range(takes: TimeEstimate) -> String {
    let (min, max) = (minutes(takes.min), minutes(takes.max));
    if min == max { format!("about {min}") } else { format!("{min} to {max}") }
}

/// The values of the axes in a cell, in words; empty if the run has no axes.
pub(super) fn axes_words(key: &CellKey) -> String {
    weir_analysis::axes_words(&key.axes)
}

/// Prints progress as plain lines.
struct Lines {
    /// Width of the column with the names of gateways.
    width: usize,
    /// Number of loads so far that were measured again.
    retries: Counter<u64>,
}

impl Lines {
    fn name(&self, key: &CellKey) -> String {
        let axes = axes_words(key);
        let axes = if axes.is_empty() { axes } else { format!(", {axes}") };
        format!("{:<width$} repeat {}{axes}", key.gateway, key.repeat + 1, width = self.width)
    }

    /// The remaining time, and how many loads were measured again.
    fn left(&self, progress: Progress) -> String {
        let retries = match self.retries.get() {
            0 => String::new(),
            count => format!(", loads re-measured after noise: {count}"),
        };
        match (progress.done == progress.planned, retries.strip_prefix(", ")) {
            (true, None) => String::new(),
            (true, Some(retries)) => retries.to_owned(),
            (false, _) => format!("{} left{retries}", range(progress.left)),
        }
    }

    fn finished(&self, cell: &Cell, progress: Progress) -> String {
        let digits = progress.planned.to_string().len();
        let place = format!("[{:>digits$}/{}]", progress.done, progress.planned);
        format!("{place} {}: {}", self.name(&cell.key), figures(cell))
    }
}

impl Observer for Lines {
    fn note(&self, text: &str) {
        note(text);
    }

    fn cell_started(&self, _: &CellKey, _: Progress) {}

    fn load_started(&self, _: &CellKey, _: &str, _: Duration) {}

    fn load_retried(&self, _: &CellKey, _: &str, _: &str) {
        self.retries.set(self.retries.get() + 1);
    }

    fn load_measured(&self, _: &CellKey, _: &Measurement) {}

    fn cell_finished(&self, cell: &Cell, progress: Progress) {
        let left = match self.left(progress) {
            left if left.is_empty() => left,
            left => format!(" ({left})"),
        };
        note(format_args!("{}{left}", self.finished(cell, progress)));
    }
}

/// Shows a progress bar below the plain lines.
struct Bar {
    lines: Lines,
    bar: ProgressBar,
}

impl Observer for Bar {
    fn note(&self, text: &str) {
        self.bar.println(escaped(text));
    }

    fn cell_started(&self, key: &CellKey, progress: Progress) {
        self.bar.set_length(progress.planned as u64);
        self.bar.set_position(progress.done as u64);
        self.bar.set_message(format!("{}: {}", self.lines.left(progress), self.lines.name(key)));
    }

    fn load_started(&self, key: &CellKey, load: &str, takes: Duration) {
        self.bar.set_message(format!("{}, {load} for {}", self.lines.name(key), minutes(takes)));
    }

    fn load_retried(&self, key: &CellKey, load: &str, cause: &str) {
        self.lines.load_retried(key, load, cause);
        self.bar.set_message(format!("{}, {load} re-measured: {cause}", self.lines.name(key)));
    }

    fn load_measured(&self, _: &CellKey, _: &Measurement) {}

    fn cell_finished(&self, cell: &Cell, progress: Progress) {
        self.bar.println(escaped(&self.lines.finished(cell, progress)));
        self.bar.set_position(progress.done as u64);
        self.bar.set_message(self.lines.left(progress));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The main values of a cell in one line.
fn figures(cell: &Cell) -> String {
    match &cell.outcome {
        CellOutcome::Failed { cause, message, log_tail, .. } => {
            let last = last_words(log_tail).map(|line| format!(" ({line})")).unwrap_or_default();
            format!("FAILED, {cause}: {message}{last}")
        }
        CellOutcome::Measured { measurements } => {
            measurements.iter().filter_map(load_figures).collect::<Vec<_>>().join(" | ")
        }
    }
}

/// The main values of a load. In a capacity search, only the last trial returns text: the result of the search.
fn load_figures(m: &Measurement) -> Option<String> {
    if let Some(trial) = &m.trial {
        return trial.found.as_ref().map(|found| format!("{} {}", m.load, found_words(found)));
    }
    let result = &m.record.result;
    let time = |ns: Option<u64>| ns.map_or("> timeout".to_owned(), |ns| quantity::time_ns(ns as f64));
    let mut figures = vec![
        quantity::rate(result.rate_per_s),
        format!("p50 {}", time(result.latency_ns.p50)),
        format!("p99 {}", time(result.latency_ns.p99)),
    ];
    figures.extend(m.cpu_us_per_request.map(|us| format!("{} CPU/request", quantity::time_ns(us * 1e3))));
    figures.push(format!("limited by {}", bound_name(m.judgement.bound_by)));
    let reasons = m.judgement.verdicts.reasons();
    figures.extend(reasons.into_iter().map(|reason| reason_name(reason).to_owned()));
    Some(format!("{} {}", m.load, figures.join(", ")))
}

/// The result of a capacity search, like `771/s [742 .. 796] in 14 trials: the interval was narrow enough`.
fn found_words(found: &Found) -> String {
    let ends = |per_s: f64, [low, high]: [f64; 2]| {
        let text = quantity::rate(per_s);
        let range = quantity::range(&text, &quantity::rate(low), &quantity::rate(high));
        format!("{text} [{range}]")
    };
    let answer = match (found.capacity_per_s, found.interval_per_s) {
        (Some(per_s), Some(interval)) => ends(per_s, interval),
        _ => border_words(found).unwrap_or_else(|| "no capacity".to_owned()),
    };
    let trials = weir_results::words::counted(found.trials.into(), "trial");
    format!("{answer} in {trials}: {}", stopped_words(found.stopped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_a_range_if_their_ends_differ() {
        let check = |min: f64, max: f64, expected: &str| {
            let [min, max] = [min, max].map(Duration::from_secs_f64);
            assert_eq!(range(TimeEstimate { min, max }), expected);
        };
        check(21.2, 61.8, "21 s to 62 s");
        check(115.0, 310.0, "2 min to 6 min");
        check(45.0, 45.2, "about 45 s");
        check(5_000.0, 15_000.0, "84 min to 4 h 10 min");
    }
}
