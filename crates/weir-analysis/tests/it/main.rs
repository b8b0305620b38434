//! Verdicts, intervals and conclusions at their boundaries.

mod judged;
mod records;
