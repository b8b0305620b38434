//! Errors of a merge.

use crate::HistogramError;

/// Records that cannot be merged. The error names the agent of the rejected record.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// No records were given.
    #[error("there is no record of a shard to merge")]
    Empty,
    /// Two records have the same name: a bug in the coordinator.
    #[error("shard `{agent}`: another shard has the same name")]
    SameName {
        /// The name.
        agent: String,
    },
    /// A record is of another load, or of another weir version.
    #[error("shard `{agent}`: the {what} is {found}, but {expected} on shard `{other}`")]
    Differs {
        /// The agent of the rejected record.
        agent: String,
        /// What differs.
        what: &'static str,
        /// The value of this record.
        found: String,
        /// The agent that it was compared with.
        other: String,
        /// The value of that agent's record.
        expected: String,
    },
    /// The shards did not run at the same time.
    #[error("shard `{agent}`: it ended before shard `{other}` started")]
    Apart {
        /// The agent whose phase ended first.
        agent: String,
        /// The agent whose phase started last.
        other: String,
    },
    /// The request counts do not add up: a bug in weir.
    #[error("shard `{agent}`: the request counts do not add up; this is a bug in weir")]
    Unbalanced {
        /// The agent of the rejected record.
        agent: String,
    },
    /// A histogram cannot be decoded: the record is damaged, or not from weir.
    #[error("shard `{agent}`: cannot read the histogram of the {what}: {source}")]
    Histogram {
        /// The agent of the rejected record.
        agent: String,
        /// The metric of the histogram.
        what: &'static str,
        /// The cause.
        source: HistogramError,
    },
    /// A histogram with other bounds than weir's. A sum would lose precision.
    #[error("shard `{agent}`: the histogram of the {what} has other bounds than weir's")]
    Bounds {
        /// The agent of the rejected record.
        agent: String,
        /// The metric of the histogram.
        what: &'static str,
    },
}

impl MergeError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Empty => "give the records of all shards",
            Self::SameName { .. } => "give each agent a unique name",
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
