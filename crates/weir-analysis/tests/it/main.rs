//! Verdicts, intervals and conclusions at their boundaries.

mod fuzzed;
mod judged;
mod records;
mod runs;
mod summarized;
