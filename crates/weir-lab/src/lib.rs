//! Runs scenarios: plans cells, measures them in order, stores them, and resumes after a crash.
//!
//! A scenario is read ([`read`]), planned ([`plan`](plan::plan)) and run cell by cell; each finished
//! cell is in the store before the next begins.

pub mod agents;
mod bounds;
mod cell;
mod check;
mod clock;
mod disturb;
mod error;
pub mod plan;
pub mod pods;
mod progress;
mod publish;
mod read;
mod run;
pub mod scenario;
mod source;
mod watch;

pub use bounds::read_bounds;
pub use cell::from_agents::AgentsOptions;
pub use cell::origin::secure_origin;
pub use cell::service::service_binding;
pub use cell::start::{Addresses, binding};
pub use check::Known;
pub use clock::new_run_id;
pub use error::LabError;
pub use plan::estimate::TimeEstimate;
pub use plan::extend::extended;
pub use progress::{Observer, Progress};
pub use publish::{PublishRecord, PublishSpec, Published};
pub use read::{Checked, Overrides, Point, read, read_again};
pub use run::cells::Ended;
pub use run::pilot::pilot_time;
pub use run::{Bench, Prepared, differences, execute, new_run, prepare, prepare_with};
pub use scenario::load_spec::load_problem;
pub use scenario::setting::Setting;
pub use source::{Source, built_in_names};
pub use watch::{PartNow, WatchedLoad, Watcher};
