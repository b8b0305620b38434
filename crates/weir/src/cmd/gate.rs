//! `--fail-on`: which results of a run lead to an exit code other than 0.

use weir_analysis::Outcome;

use super::output::note;
use crate::failure::Exit;

/// Explains the exit codes in the help of `weir run`.
pub(crate) const RUN_EXIT_CODES: &str = "\
Exit codes:
  0    all objectives are met, and all main results are valid
  1    an objective is missed, or a measurement failed; --fail-on worse: worse than the baseline
  2    wrong use: the command line, a scenario, a configuration
  3    the environment fails: a program is missing, a port is in use, the disk is full
  4    undecided: too few valid repeats, or too much noise, for an objective or a main result;
       --fail-on worse: nothing could be compared
  130  interrupted; --resume continues
If several codes apply, 130 takes precedence over 1, and 1 over 4.
With --fail-on missed, 4 becomes 0. docs/ci.md has pipelines for both settings.";

/// Explains the exit codes in the help of `weir report`.
pub(crate) const REPORT_EXIT_CODES: &str = "\
Exit codes:
  0  all objectives are met, and all main results are valid
  1  an objective is missed, or a cell (one gateway in one repeat) failed
  2  wrong use
  3  the database or a file cannot be read or written
  4  undecided: too few valid repeats, or too much noise, for an objective or a main result;
     or the run is not complete
With --fail-on missed, 4 becomes 0.";

/// The least serious outcome for which the exit code is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Gate {
    /// Exit with 1 if an objective is missed or a cell failed, and with 0 if a result is undecided
    Missed,
    /// Exit with 1 if an objective is missed or a cell failed, and with 4 if a result is undecided
    Undecided,
}

impl Gate {
    /// Returns the exit code of a run with this outcome. Prints why the code is not 0, or that an undecided result was
    /// accepted.
    pub(crate) fn exit(self, outcome: Outcome) -> Exit {
        match (outcome, self) {
            (Outcome::Good, _) => Exit::Good,
            (Outcome::Missed, _) => {
                note("exit code 1: an objective is missed, or a cell failed");
                Exit::BadResult
            }
            (Outcome::Undecided, Self::Undecided) => {
                note(
                    "exit code 4: no objective is missed, but a result is undecided; with `--fail-on missed`, weir \
                     exits with 0",
                );
                Exit::Undecided
            }
            (Outcome::Undecided, Self::Missed) => {
                note("exit code 0: no objective is missed; --fail-on missed accepts the undecided result");
                Exit::Good
            }
        }
    }
}
