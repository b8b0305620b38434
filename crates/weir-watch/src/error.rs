//! Errors of the receivers that the user configures.

/// Why metrics cannot be pushed to a receiver.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The URL is not valid for a receiver.
    #[error("{url}: {why}")]
    Url {
        /// The URL that the user gave.
        url: String,
        /// What is wrong with the URL.
        why: String,
    },
    /// A request header cannot be parsed.
    #[error("{variable}: header {place} does not have the form name=value")]
    Headers {
        /// The environment variable that contains the headers.
        variable: &'static str,
        /// Position of the header, from 1.
        place: usize,
    },
    /// The thread that pushes metrics cannot start.
    #[error("cannot start a thread that pushes metrics: {0}")]
    Thread(#[from] std::io::Error),
}

impl WatchError {
    /// What the user can do about the error.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Url { .. } => "write the URL of the receiver, like http://127.0.0.1:9090/api/v1/write",
            Self::Headers { .. } => {
                "write name=value,name=value, with %20 for a space and %2C for a comma in values"
            }
            Self::Thread(_) => "check the limit of processes (`ulimit -u`)",
        }
    }

    /// Whether the user must correct the command or the environment variable.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Url { .. } | Self::Headers { .. })
    }
}
