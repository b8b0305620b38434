//! What was done to servers of the upstream on purpose, while load ran.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that was done to one server of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultEvent {
    /// When it was done, seconds from the start of the warm-up. A server that returns does so at this moment, and serves
    /// [`FaultEvent::took_ns`] later.
    pub t_s: f64,
    /// Whether that lies in the sustained phase.
    pub sustained: bool,
    /// The server, from 1.
    pub replica: u32,
    /// What.
    pub action: FaultAction,
    /// How long it took until it was done, nanoseconds.
    pub took_ns: u64,
}

/// What is done to a server of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FaultAction {
    /// Its processes are killed: the kernel closes their connections, and refuses further ones.
    Kill,
    /// Its processes are stopped where they are: connections are accepted by the kernel, and nothing is answered.
    Stall,
    /// It resets the connection of every request.
    Reset,
    /// It is as it was before: started again, let go on, or told to answer.
    Return,
}

impl FaultAction {
    /// What became of the server by it: `killed`.
    pub fn done(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Stall => "stalled",
            Self::Reset => "resets",
            Self::Return => "returned",
        }
    }
}

impl fmt::Display for FaultAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill",
            Self::Stall => "stall",
            Self::Reset => "reset",
            Self::Return => "return",
        })
    }
}
