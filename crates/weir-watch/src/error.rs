//! What can be wrong with an output.

/// An output that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The URL is not one of a receiver.
    #[error("{url}: {why}")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Headers of requests that cannot be read.
    #[error("{variable}: header {place} is not written like name=value")]
    Headers {
        /// The environment variable.
        variable: &'static str,
        /// Which of them, from 1.
        place: usize,
    },
    /// The thread that pushes cannot start.
    #[error("cannot start a thread that pushes metrics: {0}")]
    Thread(#[from] std::io::Error),
}

impl WatchError {
    /// What to do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Url { .. } => "write the URL of the receiver, like http://127.0.0.1:9090/api/v1/write",
            Self::Headers { .. } => {
                "write name=value,name=value, with %20 for a space and %2C for a comma in values"
            }
            Self::Thread(_) => "check the limit of processes (`ulimit -u`)",
        }
    }

    /// Whether the caller has to correct the command.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Url { .. } | Self::Headers { .. })
    }
}
