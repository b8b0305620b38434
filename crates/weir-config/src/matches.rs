//! What a route may ask of a request beside its host and path, as a configuration says it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use weir_http::is_token_byte;

use crate::model::Route;
use crate::problem::Problem;
use crate::validate::wrong;

/// Methods that clients write in capitals, and people in small letters.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

/// What the value of a field or of a query parameter must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(untagged)]
pub enum ValueMatch {
    /// `name: value`: this value.
    Value(String),
    /// `name: { exact: value }`: the same.
    Exact {
        /// The value.
        exact: String,
    },
    /// `name: { regex: pattern }`: one that the regular expression matches from end to end.
    Regex {
        /// The regular expression.
        regex: String,
    },
    /// `name: { present: true }`: any, if it is there.
    Present {
        /// Always `true`.
        #[schemars(extend("const" = true))]
        present: bool,
    },
}

impl ValueMatch {
    fn exact(&self) -> Option<&str> {
        match self {
            ValueMatch::Value(exact) | ValueMatch::Exact { exact } => Some(exact),
            ValueMatch::Regex { .. } | ValueMatch::Present { .. } => None,
        }
    }
}

impl Route {
    /// The regular expressions that it names, each with its field.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = (String, &str)> {
        let of_path = self.regex.iter().map(|text| ("regex".to_owned(), text.as_str()));
        of_path.chain(patterns_of("headers", &self.headers)).chain(patterns_of("query", &self.query))
    }

    /// What is wrong by itself with what it asks of method, fields and query.
    pub(crate) fn check_matches(&self, key: &str) -> Vec<Problem> {
        let of_query = match self.query.contains_key("") {
            true => Err(Problem::new(format!("{key}.query"), "a query parameter has an empty name")
                .help("write `name: value`, or remove it")),
            false => Ok(()),
        };
        wrong([check_methods(key, &self.methods), check_headers(key, &self.headers), of_query])
    }
}

fn patterns_of<'r>(
    field: &str,
    values: &'r BTreeMap<String, ValueMatch>,
) -> impl Iterator<Item = (String, &'r str)> {
    values.iter().filter_map(move |(name, value)| match value {
        ValueMatch::Regex { regex } => Some((format!("{field}.{name}.regex"), regex.as_str())),
        _ => None,
    })
}

fn check_methods(key: &str, methods: &[String]) -> Result<(), Problem> {
    for (index, method) in methods.iter().enumerate() {
        let wrong = |message: String, remedy: String| {
            Err(Problem::new(format!("{key}.methods[{index}]"), message).help(remedy))
        };
        let capitals = method.to_ascii_uppercase();
        if method.is_empty() || !method.bytes().all(is_token_byte) {
            let message = format!("invalid method `{}`", method.escape_debug());
            return wrong(message, "use a method such as `GET`".to_owned());
        }
        if *method != capitals && METHODS.contains(&capitals.as_str()) {
            let message = format!("unknown method `{method}`; methods are case-sensitive");
            return wrong(message, format!("write `{capitals}`"));
        }
        if method == "CONNECT" {
            return wrong("CONNECT is not supported (status 501)".to_owned(), "remove it".to_owned());
        }
        if methods[..index].contains(method) {
            return wrong(format!("duplicate method `{method}`"), "remove one of them".to_owned());
        }
    }
    Ok(())
}

fn check_headers(key: &str, headers: &BTreeMap<String, ValueMatch>) -> Result<(), Problem> {
    let mut names = BTreeSet::new();
    for (name, value) in headers {
        let wrong = |message: String, remedy: &str| {
            Err(Problem::new(format!("{key}.headers.{name}"), message).help(remedy))
        };
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            let message = format!("invalid header name `{}`", name.escape_debug());
            return wrong(message, "use letters, digits and hyphens");
        }
        if !names.insert(name.to_ascii_lowercase()) {
            return wrong(
                format!("duplicate header `{name}`; header names ignore case"),
                "remove one of them",
            );
        }
        let Some(exact) = value.exact() else { continue };
        let has_controls = exact.bytes().any(|b| b != b'\t' && b.is_ascii_control());
        if has_controls || exact.trim_matches([' ', '\t']) != exact {
            let message = format!("no header can have the value `{}`", exact.escape_debug());
            return wrong(message, "remove control characters, and whitespace at both ends");
        }
    }
    Ok(())
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
                "`present: false` is not supported; write `present: true`, or remove it",
            )),
            _ => Err(de::Error::custom(
                "more than one condition for one value; write only one of `exact`, `regex` and `present`",
            )),
        }
    }
}
