//! Load from many machines: places of agents, their start, and a load over all of them
//! (`docs/method.md#many-machines`).

mod crew;
mod place;
mod ssh;
mod work;

pub use crew::{Crew, CrewError, InPods, Joining, PodsWanted, Stop, nearest_to_limit};
pub use place::Place;
pub use ssh::SshError;
pub use work::{ShardWork, alive_mark, prepared_mark};
