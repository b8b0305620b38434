//! Errors of coordinators and agents.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::message::AgentFailure;

/// An error of a coordinator or an agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The coordinator cannot listen on its address.
    #[error("cannot listen for agents on {address}: {source}")]
    Listen {
        /// The address on which the coordinator should listen.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The coordinator cannot be reached.
    #[error("cannot reach the coordinator at {address}: {source}")]
    Join {
        /// The coordinator's address, as the user gave it.
        address: String,
        /// The error of the connection.
        source: io::Error,
    },
    /// The coordinator rejected this agent.
    #[error("the coordinator rejected this agent: {why}")]
    Refused {
        /// Why the coordinator rejected the agent.
        why: String,
        /// What the user can do about it.
        remedy: String,
    },
    /// The connection to the coordinator is lost.
    #[error("lost the connection to the coordinator: {why}")]
    Lost {
        /// Why the connection is lost.
        why: String,
    },
    /// Fewer agents joined than the run needs.
    #[error("{joined} of {needed} agents joined within {seconds} s{detail}")]
    Missing {
        /// Number of agents that joined.
        joined: usize,
        /// Number of agents that the run needs.
        needed: usize,
        /// Time limit, seconds.
        seconds: u64,
        /// Why the last connection was rejected, with leading punctuation; empty if none was rejected.
        detail: String,
    },
    /// A file of the load cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A ticket is unusable.
    #[error("{place}: {why}")]
    Ticket {
        /// The path of the ticket's file.
        place: String,
        /// What is wrong with the ticket.
        why: String,
    },
    /// Certificates cannot be created or used.
    #[error("cannot create or use the certificates of the agents: {0}")]
    Certificates(String),
    /// Threads or sockets cannot be created.
    #[error("cannot start the coordinator: {0}")]
    Start(io::Error),
    /// The run was stopped.
    #[error("stopped")]
    Stopped,
}

impl AgentError {
    /// What the user can do about the error; empty if unknown.
    pub fn remedy(&self) -> &str {
        match self {
            Self::Listen { .. } => "choose an address of this machine with a free port, like 0.0.0.0:7400",
            Self::Join { .. } => "check the address, and that no firewall blocks the connection",
            Self::Refused { remedy, .. } => remedy,
            Self::Lost { .. } => "check that the run has not ended, and that the network works",
            Self::Stopped => "",
            Self::Missing { .. } => {
                "see the agents' logs; each agent needs the run's ticket, and must reach the run's address (`--listen`)"
            }
            Self::File { .. } => "check that the file exists and can be read",
            Self::Ticket { .. } => "copy the ticket file of the run again, complete and unchanged",
            Self::Certificates(_) | Self::Start(_) => "report this as a bug",
        }
    }
}

/// Why a load on several agents failed: the first failure of an agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("agent {agent}: {}", failure.message)]
pub struct RoundFailure {
    /// The name of the agent.
    pub agent: String,
    /// The failure of the agent.
    pub failure: AgentFailure,
}
