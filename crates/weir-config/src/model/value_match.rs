//! Conditions on values of header fields and query parameters.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A condition on the value of a header or a query parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(untagged)]
pub enum ValueMatch {
    /// `name: value`: the value is equal to this text.
    Value(String),
    /// `name: { exact: value }`: long form of `name: value`.
    Exact {
        /// The text that the value must be equal to.
        exact: String,
    },
    /// `name: { regex: pattern }`: the regular expression matches the whole value.
    Regex {
        /// The regular expression.
        regex: String,
    },
    /// `name: { present: true }`: the header or parameter is present, with any value.
    Present {
        /// Always `true`.
        #[schemars(extend("const" = true))]
        present: bool,
    },
}

impl ValueMatch {
    /// The text that the value must be equal to; `None` for other conditions.
    pub(crate) fn exact(&self) -> Option<&str> {
        match self {
            ValueMatch::Value(exact) | ValueMatch::Exact { exact } => Some(exact),
            ValueMatch::Regex { .. } | ValueMatch::Present { .. } => None,
        }
    }
}

impl<'de> Deserialize<'de> for ValueMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ValueMatch, D::Error> {
        deserializer.deserialize_any(Form)
    }
}

struct Form;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ways {
    exact: Option<String>,
    regex: Option<String>,
    present: Option<bool>,
}

impl<'de> Visitor<'de> for Form {
    type Value = ValueMatch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a string (numbers in quotes), or `{ exact: .. }`, `{ regex: .. }` or `{ present: true }`",
        )
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<ValueMatch, E> {
        Ok(ValueMatch::Value(value.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ValueMatch, A::Error> {
        let Ways { exact, regex, present } = Ways::deserialize(MapAccessDeserializer::new(map))?;
        match (exact, regex, present) {
            (Some(exact), None, None) => Ok(ValueMatch::Exact { exact }),
            (None, Some(regex), None) => Ok(ValueMatch::Regex { regex }),
            (None, None, Some(true)) => Ok(ValueMatch::Present { present: true }),
            (None, None, Some(false)) => Err(de::Error::custom(
                "`present: false` is not supported; write `present: true`, or remove the condition",
            )),
            _ => Err(de::Error::custom(
                "more than one condition for one value; write only one of `exact`, `regex` and `present`",
            )),
        }
    }
}
