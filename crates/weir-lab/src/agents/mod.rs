//! Load from many machines: where agents run, how weir starts them, and how they generate one load together
//! (`docs/method.md#many-machines`).

mod crew;
mod place;
mod ssh;
mod work;

pub use crew::{Crew, CrewError, InPods, Joining, PodsWanted, Stop, nearest_to_limit};
pub use place::Place;
pub use ssh::SshError;
pub use work::{ShardWork, alive_mark, prepared_mark};
