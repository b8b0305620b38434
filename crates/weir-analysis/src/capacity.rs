//! Capacity at an objective (`docs/method.md#capacity`): a search with repeated trials that no single noisy trial decides.
//!
//! A trial is a short open load at one rate. [`Search`] says which rate to try next and when to stop: a pure state
//! machine over what the trials gave, without clock or chance. It brackets first, by factors, where a miss has to be
//! seen twice; then it places trials about the border and weighs all of them together ([`posterior`]).
//! [`capacities`] turns what the searches of a run's repeats found into figures with intervals over repeats.

mod answer;
mod bounds;
mod conclusions;
mod posterior;
mod search;

pub use answer::{Capacity, CapacityRow, Searched, border_words, capacities, stopped_words};
pub use bounds::{Bound, Seen, objective_words, unsearchable};
pub use search::{Asked, Search, Step, TrialSeen, Voided};

pub(crate) use answer::problems;
