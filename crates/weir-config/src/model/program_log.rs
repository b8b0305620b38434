//! Configuration of the program's own log.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Log of the program itself, on standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramLog {
    /// Lowest level to log. `--log-level` overrides it. A level set through the admin server overrides both.
    pub level: Severity,
    /// Format of a log line.
    pub format: ProgramLogFormat,
}

/// Severity of a log line. Used as a log level, it includes lines of this severity and of all higher severities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A requested action failed.
    Error,
    /// A condition that an operator should check.
    #[default]
    Warn,
    /// Normal operation.
    Info,
    /// Details, such as single failed requests.
    Debug,
}

/// How a line of the program's log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProgramLogFormat {
    /// Time, level, process and message as plain text.
    #[default]
    Text,
    /// Time, level, process and message as JSON.
    Json,
}

impl Severity {
    /// All severities, the most severe first.
    pub const ALL: [Severity; 4] = [Severity::Error, Severity::Warn, Severity::Info, Severity::Debug];

    /// The name of this severity in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warn => "warn",
            Severity::Info => "info",
            Severity::Debug => "debug",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not the name of a [`Severity`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown level `{}`; write error, warn, info or debug", .0.escape_debug())]
pub struct UnknownSeverity(String);

impl FromStr for Severity {
    type Err = UnknownSeverity;

    fn from_str(text: &str) -> Result<Severity, UnknownSeverity> {
        let named = Severity::ALL.into_iter().find(|severity| severity.name() == text);
        named.ok_or_else(|| UnknownSeverity(text.to_owned()))
    }
}
