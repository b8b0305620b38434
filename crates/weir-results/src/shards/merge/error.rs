//! Why records do not make one load.

use crate::HistogramError;

/// Records that cannot be merged, with the agent whose record is refused.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// Nothing was given.
    #[error("there is no record of a shard to merge")]
    Empty,
    /// Two records have the same name: the coordinator's fault.
    #[error("shard `{agent}`: another shard has the same name")]
    SameName {
        /// The name.
        agent: String,
    },
    /// A record is of another load, or of another version of weir.
    #[error("shard `{agent}`: the {what} is {found}, but {expected} on shard `{other}`")]
    Differs {
        /// The agent whose record is refused.
        agent: String,
        /// What differs.
        what: &'static str,
        /// What this record has.
        found: String,
        /// The agent that it is compared with.
        other: String,
        /// What the record of that agent has.
        expected: String,
    },
    /// The shards did not run at the same time.
    #[error("shard `{agent}`: it had ended before shard `{other}` started")]
    Apart {
        /// The agent whose phase ended first.
        agent: String,
        /// The agent whose phase started last.
        other: String,
    },
    /// The books do not balance: a defect of weir.
    #[error("shard `{agent}`: the books do not balance; this is a bug in weir")]
    Unbalanced {
        /// The agent whose record is refused.
        agent: String,
    },
    /// A histogram cannot be read: the record is damaged, or not weir's.
    #[error("shard `{agent}`: cannot read the histogram of the {what}: {source}")]
    Histogram {
        /// The agent whose record is refused.
        agent: String,
        /// What the histogram is of.
        what: &'static str,
        /// What is wrong with it.
        source: HistogramError,
    },
    /// A histogram has other bounds than weir's, so that a sum would lose precision.
    #[error("shard `{agent}`: the histogram of the {what} has other bounds than weir's")]
    Bounds {
        /// The agent whose record is refused.
        agent: String,
        /// What the histogram is of.
        what: &'static str,
    },
}

impl MergeError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Empty => "give the records of all shards",
            Self::SameName { .. } => "give each agent a name of its own",
            Self::Differs { .. } => "use one version of weir on all machines, and repeat the load",
            Self::Apart { .. } => "check the clocks of the machines, and repeat the load",
            Self::Unbalanced { .. } => "report the bug with the record",
            Self::Histogram { .. } | Self::Bounds { .. } => "use weir's own agents, and repeat the load",
        }
    }
}

pub(super) fn unreadable(agent: &str, what: &'static str, source: HistogramError) -> MergeError {
    MergeError::Histogram { agent: agent.to_owned(), what, source }
}
