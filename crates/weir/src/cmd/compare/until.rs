//! `--until decided`: adds repeats to the run of A and B until every verdict is decided.

use weir_analysis::compare::{Comparison, Dataset, Source, Verdict};
use weir_results::words::counted;

use super::super::output::note;
use super::super::run::Extension;
use super::Args;
use crate::failure::Failure;

/// When `--until` stops adding repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Until {
    /// Every verdict is better, worse or same
    Decided,
}

/// Adds repeats to the run that contains both A and B.
pub(super) struct More {
    run_id: String,
    extension: Extension,
}

impl More {
    /// A and B must be two gateways of the same stored run, because weir alternates only between gateways of one run.
    pub(super) fn of(args: &Args, a: &Dataset, b: &Dataset) -> Result<Self, Failure> {
        let run_of = |side: &Dataset| match &side.source {
            Source::Run(source) => Some(source.run.id.clone()),
            Source::Foreign { .. } => None,
        };
        match (run_of(a), run_of(b)) {
            (Some(a), Some(b)) if a == b && args.a.contains(':') && args.b.contains(':') => {
                Ok(Self { run_id: a, extension: Extension::new()? })
            }
            _ => Err(Failure::wrong_use(
                "--until decided: A and B must be two gateways of the same stored run",
                "run both versions as gateways of one scenario, then `weir compare RUN:old RUN:new --until decided`",
            )),
        }
    }

    /// Measures another repeat if a verdict is undecided. Returns `true` if it measured one, otherwise prints why not.
    pub(super) fn measured(&self, args: &Args, comparison: &Comparison) -> Result<bool, Failure> {
        let mut store = args.database.open_to_resume()?;
        let repeats = store.run(&self.run_id)?.repeats();
        let undecided = undecided(comparison);
        let after = counted(repeats.into(), "repeat");
        if undecided.is_empty() {
            note(format_args!("--until: every verdict is decided after {after}"));
            return Ok(false);
        }
        if repeats >= args.at_most {
            note(format_args!(
                "--until: stopped after {after}, the maximum (--at-most). Undecided: {}",
                undecided.join("; ")
            ));
            return Ok(false);
        }
        self.extension.measure(&mut store, &self.run_id, repeats + 1)
    }
}

/// The metrics whose verdict is undecided, each with its load.
fn undecided(comparison: &Comparison) -> Vec<String> {
    let points = comparison.points.iter();
    let figures = points.flat_map(|point| point.figures.iter().map(move |figure| (point, figure)));
    let undecided = figures.filter(|(_, figure)| figure.verdict == Some(Verdict::Undecided));
    undecided.map(|(point, figure)| format!("{} at {}", figure.measure.title(), point.load)).collect()
}
