//! Thresholds for load shedding.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use weir_document::{Problem, Share, Size, Time};

use super::bounds::check_time;

/// Thresholds above which new requests get 503, so that in-flight requests can complete. A field that is not set is
/// not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overload {
    /// Memory threshold: a share of the cgroup limit, or of host memory if there is no limit (`90%`), or a size that
    /// the process must not exceed (`256MiB`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"90%", extend("x-default" = "no limit"))]
    pub memory: Option<MemoryBound>,
    /// Event loop lag, measured every 100 ms. A worker rejects requests after its lag has exceeded this threshold for
    /// half a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"50ms", extend("x-default" = "no limit"))]
    pub lag: Option<Time>,
}

/// A memory threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemoryBound {
    /// A share of the cgroup limit, or of host memory if there is no limit.
    Share(Share),
    /// A size that the memory of the process must not exceed.
    Size(Size),
}

impl Overload {
    /// Whether any threshold is set.
    pub(crate) fn is_any(&self) -> bool {
        *self != Overload::default()
    }
}

/// Validates `overload`.
pub(crate) fn check(overload: &Overload) -> Result<(), Problem> {
    let is_nothing = match overload.memory {
        Some(MemoryBound::Share(share)) => share.0 <= 0.0,
        Some(MemoryBound::Size(size)) => size.0 == 0,
        None => false,
    };
    if is_nothing {
        return Err(Problem::of("overload.memory", "0 would reject every request with 503")
            .help("write a share like 90% or a size like 256MiB, or remove `memory` to set no limit"));
    }
    overload.lag.map_or(Ok(()), |lag| check_time("overload.lag", lag, "remove the field to set no limit"))
}

impl FromStr for MemoryBound {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryBound, String> {
        let bound = match text.ends_with('%') {
            true => text.parse().ok().map(MemoryBound::Share),
            false => text.parse().ok().map(MemoryBound::Size),
        };
        // `weir_document` splits error texts at the first `; ` into cause and remedy.
        bound.ok_or_else(|| {
            format!("`{text}` is not a memory limit; write a share like 90% or a size like 256MiB")
        })
    }
}

impl fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryBound::Share(share) => share.fmt(f),
            MemoryBound::Size(size) => size.fmt(f),
        }
    }
}

impl Serialize for MemoryBound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MemoryBound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MemoryBound, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = MemoryBound;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a share like 90% or a size like 256MiB")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<MemoryBound, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<MemoryBound, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<MemoryBound, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<MemoryBound, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for MemoryBound {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Memory".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[0-9]+(\.[0-9]+)? *(%|B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$",
            "description": "a share of the memory limit, or an amount of memory, with its unit, like \
                            90%, 256MiB"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str) -> Result<MemoryBound, String> {
        let text = format!("memory: {text}\n");
        let read = weir_document::read::<Overload>("test.yaml", &text);
        read.map(|overload| overload.memory.unwrap()).map_err(|error| format!("{error}; {}", error.remedy))
    }

    #[test]
    fn reads_a_memory_threshold_as_share_or_size() {
        for (text, expected, printed) in [
            ("90%", MemoryBound::Share(Share(0.9)), "90%"),
            ("12.5 %", MemoryBound::Share(Share(0.125)), "12.5%"),
            ("256MiB", MemoryBound::Size(Size(256 << 20)), "256MiB"),
        ] {
            assert_eq!(bound(text), Ok(expected), "{text}");
            assert_eq!(expected.to_string(), printed);
            assert_eq!(printed.parse(), Ok(expected));
        }
        for text in ["90", "0.9", "101%", "90 percent", "256mib"] {
            let message = bound(text).unwrap_err();
            let expected =
                format!("`{text}` is not a memory limit; write a share like 90% or a size like 256MiB");
            assert!(message.ends_with(&expected), "{message}");
        }
    }

    #[test]
    fn rejects_thresholds_of_zero() {
        let message = |overload: Overload| check(&overload).map_err(|problem| problem.to_string());
        let of = |memory, lag| Overload { memory, lag };
        let nothing = Err("overload.memory: 0 would reject every request with 503".to_owned());
        assert_eq!(message(of(Some(MemoryBound::Share(Share(0.0))), None)), nothing);
        assert_eq!(message(of(Some(MemoryBound::Size(Size(0))), None)), nothing);
        let zero = Time(std::time::Duration::ZERO);
        let lag = Err("overload.lag: 0s is out of range; allowed: 1ns to 30 days".to_owned());
        assert_eq!(message(of(None, Some(zero))), lag);
        assert_eq!(message(Overload::default()), Ok(()));
        assert!(!Overload::default().is_any());
    }
}
