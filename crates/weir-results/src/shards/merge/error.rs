//! Errors of a merge.

use crate::HistogramError;

/// Records cannot be merged. The error names the agent whose record is rejected.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// No records were given.
    #[error("no shard results to merge")]
    Empty,
    /// Two records have the same agent name: a bug in the coordinator.
    #[error("shard `{agent}`: another shard has the same name")]
    SameName {
        /// The agent name that occurs twice.
        agent: String,
    },
    /// A record is from another load, or from another weir version.
    #[error("shard `{agent}`: the {what} is {found}, but {expected} on shard `{other}`")]
    Differs {
        /// The agent whose record is rejected.
        agent: String,
        /// The property that differs.
        what: &'static str,
        /// The value in the record of `agent`.
        found: String,
        /// The agent whose record was compared with the rejected record.
        other: String,
        /// The value in the record of `other`.
        expected: String,
    },
    /// The shards did not run at the same time.
    #[error("shard `{agent}` ended before shard `{other}` started")]
    Apart {
        /// The agent whose phase ended first.
        agent: String,
        /// The agent whose phase started last.
        other: String,
    },
    /// The request counts do not add up: a bug in weir.
    #[error("shard `{agent}`: the request counts do not add up; this is a bug in weir")]
    Unbalanced {
        /// The agent whose record is rejected.
        agent: String,
    },
    /// A histogram cannot be decoded: the record is damaged, or not from weir.
    #[error("shard `{agent}`: cannot read {what}: {source}")]
    Histogram {
        /// The agent whose record is rejected.
        agent: String,
        /// The histogram, such as `the latency histogram`.
        what: &'static str,
        /// Why the histogram cannot be decoded.
        source: HistogramError,
    },
    /// A histogram does not have the value range and precision of this weir version. Adding it would lose precision.
    #[error("shard `{agent}`: {what} does not have the value range and precision of this weir version")]
    Bounds {
        /// The agent whose record is rejected.
        agent: String,
        /// The histogram, such as `the latency histogram`.
        what: &'static str,
    },
}

impl MergeError {
    /// How the user can fix the problem.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Empty => "give the records of all shards",
            Self::SameName { .. } => "give each agent a unique name",
            Self::Apart { .. } => "check the clocks of the machines",
            Self::Unbalanced { .. } => "report the bug, and include the record of this shard",
            Self::Differs { .. } | Self::Histogram { .. } | Self::Bounds { .. } => {
                "install one version of weir on every machine"
            }
        }
    }
}

pub(super) fn unreadable(agent: &str, what: &'static str, source: HistogramError) -> MergeError {
    MergeError::Histogram { agent: agent.to_owned(), what, source }
}
