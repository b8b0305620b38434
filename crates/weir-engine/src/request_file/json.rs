//! Reads request files with one JSON object per line.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use weir_document::{Named, Position, Problem, Size};

use super::{Base, Sink, set_fields, target};
use crate::spec::{Body, ChecksSpec, RequestSpec, StatusPattern};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    method: Option<String>,
    path: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: Fields,
    body: Option<String>,
    name: Option<String>,
    weight: Option<f64>,
    checks: Option<LineChecks>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineChecks {
    #[serde(default)]
    status: Statuses,
    #[serde(default)]
    headers: Fields,
    body_bytes: Option<u64>,
    body_contains: Option<String>,
}

/// A JSON object with string values, in the order of the file.
#[derive(Default)]
struct Fields(Vec<(String, String)>);

/// Expected statuses: `200`, `"2xx"`, or a list of these.
#[derive(Default)]
struct Statuses(Vec<String>);

pub(super) fn parse(
    source_name: &str,
    text: &str,
    base: &Base,
    sink: Sink<'_>,
) -> Result<(), Problem<Position>> {
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        // The suffix tells the reader to expect JSON.
        let line = weir_document::read::<Line>(".json", line).map_err(|error| {
            let column = error.place.column;
            error.renamed(source_name).moved_to(number, column)
        })?;
        line.into_request(base)
            .and_then(&mut *sink)
            .map_err(|fault| fault.at(Position::new(source_name, number, 1)))?;
    }
    Ok(())
}

impl Line {
    fn into_request(self, base: &Base) -> Result<RequestSpec, Problem<()>> {
        let mut request = base.request.clone();
        match (self.path, self.url) {
            (Some(_), Some(_)) => {
                return Err(Problem::new("`path` and `url` cannot be combined", "remove one of the two"));
            }
            (None, None) => return Err(Problem::new("missing field `path`", "add `path` or `url`")),
            (Some(path), None) if !path.starts_with('/') && path != "*" => {
                return Err(Problem::new(
                    format!("path: `{path}` does not start with a slash"),
                    "start the path with a slash, or write a full URL in `url`",
                ));
            }
            (Some(url), None) | (None, Some(url)) => target::apply(&mut request, &url, base)?,
        }
        set_fields(&mut request.headers, self.headers.0);
        let is_post = self.body.as_ref().is_some_and(|body| !body.is_empty()) && !base.is_method_given;
        request.method = self.method.unwrap_or(if is_post { "POST".into() } else { request.method });
        request.body = self.body.map_or(request.body, Body::Text);
        request.name = self.name.or(request.name);
        request.weight = self.weight.unwrap_or(request.weight);
        if let Some(LineChecks { status, headers, body_bytes, body_contains }) = self.checks {
            let patterns = status.0.iter().map(|text| pattern(text));
            request.checks = ChecksSpec {
                status: patterns.collect::<Result<_, _>>()?,
                headers: Named(headers.0),
                length: body_bytes.map(Size),
                body: body_contains,
            };
        }
        Ok(request)
    }
}

fn pattern(text: &str) -> Result<StatusPattern, Problem<()>> {
    text.parse().map_err(|_| {
        let message = format!("check: `{text}` is not a status code");
        Problem::new(message, "use a code like 200, or a class like 2xx")
    })
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with string values, like {\"Accept\": \"text/html\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StatusesVisitor)
    }
}

struct StatusesVisitor;

impl<'de> Visitor<'de> for StatusesVisitor {
    type Value = Statuses;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status like 200 or \"2xx\", or a list of them")
    }

    fn visit_u64<E>(self, status: u64) -> Result<Statuses, E> {
        Ok(Statuses(vec![status.to_string()]))
    }

    fn visit_str<E>(self, status: &str) -> Result<Statuses, E> {
        Ok(Statuses(vec![status.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Statuses, A::Error> {
        let mut all = Vec::new();
        while let Some(Statuses(one)) = list.next_element()? {
            if all.len() > 1_000 {
                return Err(A::Error::custom("the list has too many status codes; shorten the list"));
            }
            all.extend(one);
        }
        Ok(Statuses(all))
    }
}
