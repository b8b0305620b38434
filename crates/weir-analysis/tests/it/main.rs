//! Verdicts, intervals and conclusions at their boundaries.

mod added;
mod capacity;
mod chance;
mod columns;
mod compared;
mod compared_findings;
mod domains;
mod effects;
mod errors;
mod experiments;
mod faults;
mod fuzzed;
mod headroom;
mod judged;
mod new_connections;
mod noisy;
mod queues;
mod records;
mod recovery;
mod runs;
mod silent;
mod sizing;
mod slow;
mod stationary;
mod summarized;
mod tails;
