//! Errors of outputs.

/// An output that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The URL is not valid for a receiver.
    #[error("{url}: {why}")]
    Url {
        /// The URL.
        url: String,
        /// The problem.
        why: String,
    },
    /// A request header that cannot be parsed.
    #[error("{variable}: header {place} does not have the form name=value")]
    Headers {
        /// The environment variable.
        variable: &'static str,
        /// Position of the header, from 1.
        place: usize,
    },
    /// The pushing thread cannot start.
    #[error("cannot start a thread that pushes metrics: {0}")]
    Thread(#[from] std::io::Error),
}

impl WatchError {
    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Url { .. } => "write the URL of the receiver, like http://127.0.0.1:9090/api/v1/write",
            Self::Headers { .. } => {
                "write name=value,name=value, with %20 for a space and %2C for a comma in values"
            }
            Self::Thread(_) => "check the limit of processes (`ulimit -u`)",
        }
    }

    /// Whether the user must correct the command.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Url { .. } | Self::Headers { .. })
    }
}
