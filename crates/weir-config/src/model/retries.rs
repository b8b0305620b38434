//! Retries of failed requests.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use weir_document::{Problem, Time};

use super::bounds::check_time;

/// Maximum of `attempts`. More retries would only add load to an upstream that is failing.
const ATTEMPTS_MAX: u32 = 10;

/// Statuses that `on` can list: client and server errors.
const STATUSES: std::ops::RangeInclusive<u16> = 400..=599;

/// Retries of failed requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retries {
    /// Maximum number of retries per request, 1 to 10.
    pub attempts: u32,
    /// Outcomes of an attempt that lead to a retry: failures and status codes.
    pub on: Vec<RetryOn>,
    /// Also retry methods that are not idempotent (POST, PATCH), even if the upstream may have processed the
    /// request.
    pub non_idempotent: bool,
    /// Maximum pause before the first retry. It doubles with each retry, up to ten times this value. The actual pause
    /// is random, from 0 to this maximum.
    pub backoff: Time,
}

/// Outcome of an attempt that leads to a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryOn {
    /// Connecting or the TLS handshake failed. Nothing was sent.
    Connect,
    /// The upstream closed or reset the connection before the response headers were complete.
    Reset,
    /// A timeout of this attempt expired before any byte of the response was forwarded.
    Timeout,
    /// The response has this status.
    Status(u16),
}

impl Default for Retries {
    fn default() -> Self {
        Retries {
            attempts: 1,
            on: vec![RetryOn::Connect, RetryOn::Reset],
            non_idempotent: false,
            backoff: Time(Duration::from_millis(25)),
        }
    }
}

/// Validates `retries`. `place` is the path of its field, for messages.
pub(crate) fn check_retries(place: &str, retries: &Retries) -> Result<(), Problem> {
    if !(1..=ATTEMPTS_MAX).contains(&retries.attempts) {
        let message = format!("{} is out of range; allowed: 1 to {ATTEMPTS_MAX}", retries.attempts);
        return Err(Problem::of(format!("{place}.attempts"), message)
            .help("write a number of at most 10 (default: 1), or remove `retries` for no retries"));
    }
    if retries.on.is_empty() {
        return Err(Problem::of(format!("{place}.on"), "the list is empty: the gateway would retry nothing")
            .help("remove the field to use the default, `[connect, reset]`, or remove `retries`"));
    }
    for (index, on) in retries.on.iter().enumerate() {
        let wrong = |message: String, remedy: &str| {
            Err(Problem::of(format!("{place}.on[{index}]"), message).help(remedy))
        };
        if let RetryOn::Status(status) = on
            && !STATUSES.contains(status)
        {
            return wrong(
                format!("status {status} is out of range; allowed: 400 to 599"),
                "use an error status, for example 503",
            );
        }
        if retries.on[..index].contains(on) {
            return wrong(format!("duplicate `{on}`"), "remove one of them");
        }
    }
    check_time(&format!("{place}.backoff"), retries.backoff, "remove the field to use the default, 25ms")
}

impl fmt::Display for RetryOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RetryOn::Connect => f.write_str("connect"),
            RetryOn::Reset => f.write_str("reset"),
            RetryOn::Timeout => f.write_str("timeout"),
            RetryOn::Status(status) => write!(f, "{status}"),
        }
    }
}

impl Serialize for RetryOn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RetryOn::Status(status) => serializer.serialize_u16(*status),
            word => serializer.collect_str(word),
        }
    }
}

// `weir_document` splits error texts at the first `; ` into cause and remedy.

impl<'de> Deserialize<'de> for RetryOn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RetryOn, D::Error> {
        struct WordOrStatus;

        impl Visitor<'_> for WordOrStatus {
            type Value = RetryOn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`connect`, `reset`, `timeout` or a status")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RetryOn, E> {
                let words = [RetryOn::Connect, RetryOn::Reset, RetryOn::Timeout];
                let word = words.into_iter().find(|word| word.to_string() == text);
                word.or_else(|| text.parse().ok().map(RetryOn::Status)).ok_or_else(|| {
                    E::custom(format!(
                        "unknown retry condition `{text}`; write `connect`, `reset`, `timeout` or a \
                         status like 503"
                    ))
                })
            }

            fn visit_u64<E: de::Error>(self, status: u64) -> Result<RetryOn, E> {
                self.visit_str(&status.to_string())
            }
        }

        deserializer.deserialize_any(WordOrStatus)
    }
}

impl JsonSchema for RetryOn {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RetryOn".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "enum": ["connect", "reset", "timeout"] },
                { "type": "integer", "minimum": STATUSES.start(), "maximum": STATUSES.end() },
            ],
            "description": "Outcome of an attempt that leads to a retry."
        })
    }
}
