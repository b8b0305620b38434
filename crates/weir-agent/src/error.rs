//! What goes wrong between a coordinator and its agents.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::message::AgentFailure;

/// Why a coordinator or an agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The address of the coordinator cannot be listened on.
    #[error("cannot listen for agents on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The coordinator cannot be reached.
    #[error("cannot reach the coordinator at {address}: {source}")]
    Join {
        /// The address, as it was given.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The coordinator does not take this agent.
    #[error("the coordinator refuses this agent: {why}")]
    Refused {
        /// Why.
        why: String,
        /// What to do about it.
        remedy: String,
    },
    /// The coordinator is gone.
    #[error("the coordinator is gone: {why}")]
    Lost {
        /// What happened.
        why: String,
    },
    /// Fewer agents have joined than the run needs.
    #[error("{joined} of {needed} agents joined within {seconds} s{detail}")]
    Missing {
        /// How many have joined.
        joined: usize,
        /// How many are needed.
        needed: usize,
        /// How long they had.
        seconds: u64,
        /// What is known of the others, with what leads to it.
        detail: String,
    },
    /// A file of the load cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A ticket is unusable.
    #[error("{place}: {why}")]
    Ticket {
        /// The file.
        place: String,
        /// Why.
        why: String,
    },
    /// Certificates cannot be made or used.
    #[error("certificates of the agents: {0}")]
    Certificates(String),
    /// Threads or sockets cannot be made.
    #[error("cannot start the coordinator: {0}")]
    Start(io::Error),
    /// The run was stopped.
    #[error("stopped")]
    Stopped,
}

impl AgentError {
    /// What to do about it; empty if nothing is known.
    pub fn remedy(&self) -> &str {
        match self {
            Self::Listen { .. } => "choose an address of this machine with a free port, like 0.0.0.0:7400",
            Self::Join { .. } => "check the address, and that a firewall lets the connection through",
            Self::Refused { remedy, .. } => remedy,
            Self::Lost { .. } | Self::Stopped => "",
            Self::Missing { .. } => {
                "see the agents' logs; each must reach the address that the run listens on (`--listen`), with this run's ticket"
            }
            Self::File { .. } => "check that the file exists and can be read",
            Self::Ticket { .. } => "use the ticket that the run has printed, complete and unchanged",
            Self::Certificates(_) | Self::Start(_) => "report this as a bug",
        }
    }
}

/// Why a load over several agents failed: the first agent that could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("agent {agent}: {}", failure.message)]
pub struct RoundFailure {
    /// The agent's name.
    pub agent: String,
    /// What it said, or what is known of it.
    pub failure: AgentFailure,
}
