//! Verdicts, intervals and conclusions at their boundaries.

mod added;
mod columns;
mod experiments;
mod fuzzed;
mod headroom;
mod judged;
mod noisy;
mod records;
mod runs;
mod stationary;
mod summarized;
