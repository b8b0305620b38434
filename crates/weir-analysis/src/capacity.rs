//! Capacity at an objective (`docs/method.md#capacity`): a search with repeated trials, robust against single noisy
//! trials.
//!
//! A trial is a short open load at one rate. [`Search`] is a pure state machine, without clock or randomness: from the
//! results of trials, it returns the next rate or stops. First it changes the rate by factors until it brackets the
//! capacity; a second trial must confirm a miss. Then it places trials near the capacity and evaluates all of them
//! together ([`posterior`]). [`capacities`] combines the searches of a run's repeats into values with intervals.

mod answer;
mod bounds;
mod conclusions;
mod posterior;
mod search;

pub use answer::{Capacity, CapacityRow, Searched, border_words, capacities, stopped_words};
pub use bounds::{Bound, Seen, objective_words, unsearchable};
pub use search::{Asked, InvalidBecause, Search, Step, TrialSeen};

pub(crate) use answer::problems;
