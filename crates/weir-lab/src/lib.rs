//! Scenario to cells, order, run, store; resume after a crash.
//!
//! A scenario is read ([`read`]), planned ([`plan`](plan::plan)) and run cell by cell; each finished
//! cell is in the store before the next begins.

mod again;
mod bounds;
mod cell;
mod cells;
mod certificates;
mod check;
mod clock;
mod cold_start;
mod disturb;
mod error;
mod extend;
mod kept;
mod load;
mod not_served;
mod objectives;
mod origin;
mod overlay;
mod own;
mod pilot;
pub mod plan;
mod ports;
mod progress;
mod quick;
mod read;
mod remote;
mod run;
pub mod scenario;
mod search;
mod secured;
mod shares;
mod source;
mod spec;
mod takes;
mod wiring;
mod written;

pub use bounds::read_bounds;
pub use cell::binding;
pub use cells::Ended;
pub use check::Known;
pub use error::LabError;
pub use extend::extended;
pub use pilot::pilot_time;
pub use progress::{Observer, Standing};
pub use read::{Checked, Overrides, Point, read, read_again};
pub use run::{Bench, Prepared, differences, execute, new_run, prepare};
pub use source::{Source, built_in_names};
pub use spec::{LoadFault, Setting};
pub use takes::Takes;
