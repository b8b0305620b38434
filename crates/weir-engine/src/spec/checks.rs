//! Conditions that responses must meet.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Named, Size, as_word};

/// Conditions that a response must meet. A condition that is not set is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChecksSpec {
    /// Expected status codes or classes, like `[200, 3xx]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "all below 400"))]
    pub status: Vec<StatusPattern>,
    /// Required header fields. For each, the value must contain the given text.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub headers: Named<String>,
    /// Length of the body, like `64B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Size>,
    /// Text that the body must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// A status code or a class of them: `200`, `2xx`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusPattern([u8; 3]);

/// One condition, in the form of the `--check` flag: `status=2xx`, `header=Name: text`, `length=64`, `body=text`.
#[derive(Clone, Debug, PartialEq)]
pub struct Check(ChecksSpec);

impl StatusPattern {
    pub(crate) fn fits(self, status: u16) -> bool {
        let digit = |byte: u8| u16::from(byte - b'0');
        match self.0 {
            [class, b'x' | b'X', _] => digit(class) == status_class(status),
            [hundreds, tens, ones] => digit(hundreds) * 100 + digit(tens) * 10 + digit(ones) == status,
        }
    }

    fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("digits and `x`")
    }
}

impl FromStr for StatusPattern {
    type Err = String;

    /// Parses a code from 100 to 999, or a class from `1xx` to `5xx`.
    fn from_str(text: &str) -> Result<Self, String> {
        // Codes above 599 exist in practice; their class is 5xx (RFC 9110, section 15).
        match *text.as_bytes() {
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']
            | [a @ b'1'..=b'5', b @ (b'x' | b'X'), c @ (b'x' | b'X')] => Ok(Self([a, b, c])),
            _ => Err(format!("`{text}` is not a status code; use a code like 200 or a class like 2xx")),
        }
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusPattern({self})")
    }
}

as_word!(StatusPattern, "A status code or class, like 200 or 2xx");

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "use status=200, status=2xx, 'header=Name: text', length=64 or body=text";
        let (what, value) = text.split_once('=').ok_or_else(|| format!("the check has no value; {FORMS}"))?;
        let mut checks = ChecksSpec::default();
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

impl ChecksSpec {
    /// Combines several conditions. Of several `length` or `body` conditions, the last one applies.
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

/// The class of a status code, from 1 to 5. Codes above 599 belong to class 5 (RFC 9110, section 15).
#[inline]
pub(crate) fn status_class(status: u16) -> u16 {
    (status / 100).clamp(1, 5)
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
        let fields: ChecksSpec = weir_document::read("x.yaml", written).unwrap();
        assert_eq!(ChecksSpec::of(&flags), fields);
    }

    #[test]
    fn invalid_checks_are_rejected_with_valid_forms() {
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
