//! A request of a load's mix, and what its answer must be.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Size;

use super::Named;
use super::word::as_word;

/// One request. Path, values of header fields and body may hold `{1..50}`, `{domain}`, `{seq}`, `{uuid}` and
/// `{pick:FILE}`, which each request fills in anew, by the load's seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Path and query, from `/` on.
    pub path: String,
    /// The method; GET by default, POST with a body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Header fields; `Host` replaces the topology's.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub headers: Named<String>,
    /// The body: a text, or `@FILE` for what a file holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// How often it is taken, in proportion to the others' weights; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Name of its route in the results; by default made of method and path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its answers must be, or else they count as unexpected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Checks>,
}

/// What an answer must be; what is not said is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checks {
    /// Status codes or classes that are right, like `200` or `2xx`; by default all below 400.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<StatusPattern>,
    /// Header fields that must be there, each with a value that contains this text.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub headers: Named<String>,
    /// Length of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Size>,
    /// Text that the body must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// A status code or a class of them: `200`, `2xx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPattern(pub String);

/// One check as a flag says it: `status=2xx`, `header=Name: text`, `length=64`, `body=text`.
#[derive(Clone, Debug, PartialEq)]
pub struct Check(Checks);

impl FromStr for StatusPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Codes beyond 599 are in use; their class is 5xx (RFC 9110, section 15).
        let is_pattern = matches!(
            text.as_bytes(),
            [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] | [b'1'..=b'5', b'x' | b'X', b'x' | b'X']
        );
        match is_pattern {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("`{text}` is not a status code; use a code like 200 or a class like 2xx")),
        }
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

as_word!(StatusPattern, "A status code or a class of them, like 200 or 2xx");

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "use status=200, status=2xx, 'header=Name: text', length=64 or body=text";
        let (what, value) = text.split_once('=').ok_or_else(|| format!("the check has no value; {FORMS}"))?;
        let mut checks = Checks::default();
        match what {
            "status" => {
                let codes = value.split(',').map(|code| code.trim().parse());
                checks.status = codes.collect::<Result<_, _>>()?;
            }
            "header" => {
                let (name, text) =
                    value.split_once(':').ok_or("the colon is missing; use the form 'header=Name: text'")?;
                checks.headers.0.push((name.trim().to_owned(), text.trim().to_owned()));
            }
            "length" => {
                let length = value.parse().map(Size).or_else(|_| value.parse::<Size>());
                checks.length = Some(
                    length.map_err(|_| format!("`{value}` is not a length; use a form like length=64"))?,
                );
            }
            "body" => checks.body = Some(value.to_owned()),
            _ => return Err(format!("unknown check `{what}`; {FORMS}")),
        }
        Ok(Self(checks))
    }
}

impl Checks {
    /// All of `checks` together; what is said twice holds as said last.
    pub fn of(checks: &[Check]) -> Self {
        let mut all = Self::default();
        for Check(check) in checks {
            all.status.extend(check.status.iter().cloned());
            all.headers.0.extend(check.headers.0.iter().cloned());
            all.length = check.length.or(all.length);
            all.body = check.body.clone().or(all.body);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_read_as_flags_and_as_fields() {
        let flags: Vec<Check> = ["status=200,404", "header=X-A: b: c", "length=64", "body=a=b", "status=5xx"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let written = "status: [200, 404, 5xx]\nheaders: { X-A: 'b: c' }\nlength: 64B\nbody: a=b\n";
        let fields: Checks = weir_document::read("x.yaml", written).unwrap();
        assert_eq!(Checks::of(&flags), fields);
    }

    #[test]
    fn wrong_checks_are_told_with_the_right_forms() {
        let said = |text: &str| text.parse::<Check>().unwrap_err();
        assert!(said("200").contains("status=200"));
        assert!(said("state=200").contains("`state`"));
        assert!(said("status=20").contains("2xx"));
        assert!(said("status=6xx").contains("`6xx` is not a status") && said("status=099").contains("`099`"));
        assert!("status=5XX".parse::<Check>().is_ok() && "status=999".parse::<Check>().is_ok());
        assert!(said("header=X").contains("colon"));
        assert!(said("length=long").contains("length=64"));
    }
}
