//! Trailers, the header fields after a chunked body.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_document::Problem;
use weir_http::{is_hop_by_hop, is_plain_name};

use super::forms::{TOKEN, is_token};

/// Trailers to forward in chunked bodies, by name. All others are dropped, because a server may confuse a trailer with
/// a header that was checked, changed or removed. The gateway also drops trailers that the route sets or removes as
/// headers, and digests such as `Content-Digest` if it compresses the body. These names cannot be
/// listed: `Cookie`, `X-Weir-Error`, forwarding headers, and headers that frame, route or authenticate a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Trailers {
    /// Request trailers to forward to upstreams.
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["X-Checksum"]))]
    #[schemars(extend("x-default" = "none"))]
    pub request: Vec<String>,
    /// The response trailers that the gateway forwards to clients.
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["Server-Timing"]))]
    #[schemars(extend("x-default" = "none"))]
    pub response: Vec<String>,
}

/// Fields that cannot be trailers, because a recipient needs them before the body: they frame or route a message,
/// authenticate it, name its sender, or decide how it is read (RFC 9110, 6.5.1).
const FORBIDDEN: [&str; 39] = [
    "age",
    "authorization",
    "b3",
    "cache-control",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "forwarded",
    "host",
    "last-modified",
    "location",
    "max-forwards",
    "origin",
    "pragma",
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "retry-after",
    "set-cookie",
    "strict-transport-security",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "vary",
    "via",
    "www-authenticate",
    "x-real-ip",
    "x-request-id",
    "x-weir-error",
];

const FORBIDDEN_PREFIXES: [&str; 4] = ["access-control-", "if-", "x-b3-", "x-forwarded-"];

impl Trailers {
    /// Whether the request trailer `name` is forwarded.
    pub fn passes_of_request(&self, name: &str) -> bool {
        self.request.iter().any(|passed| passed.eq_ignore_ascii_case(name))
    }

    /// Whether the response trailer `name` is forwarded.
    pub fn passes_of_response(&self, name: &str) -> bool {
        self.response.iter().any(|passed| passed.eq_ignore_ascii_case(name))
    }
}

/// Validates `trailers`. Without `underscores_in_headers`, names of request trailers may contain only letters, digits
/// and hyphens.
pub(crate) fn check(trailers: &Trailers, underscores_in_headers: bool) -> Result<(), Problem> {
    for (index, name) in trailers.request.iter().enumerate() {
        let place = format!("trailers.request[{index}]");
        check_name(&place, name)?;
        if !underscores_in_headers && !is_plain_name(name) {
            let message = format!("the gateway drops request trailers with a name like `{name}`");
            return Err(Problem::of(place, message)
                .help("use letters, digits and hyphens, or set `underscores_in_headers: true`"));
        }
    }
    for (index, name) in trailers.response.iter().enumerate() {
        check_name(&format!("trailers.response[{index}]"), name)?;
    }
    Ok(())
}

fn check_name(place: &str, name: &str) -> Result<(), Problem> {
    if !is_token(name) {
        let message = format!("invalid trailer name `{}`", name.escape_debug());
        return Err(Problem::of(place, message).help("use letters, digits and hyphens, as in `X-Checksum`"));
    }
    let lower = name.to_ascii_lowercase();
    let is_forbidden = is_hop_by_hop(name)
        || FORBIDDEN.contains(&lower.as_str())
        || FORBIDDEN_PREFIXES.iter().any(|prefix| lower.starts_with(prefix));
    if is_forbidden {
        let message = format!("`{name}` cannot be a trailer: recipients need it before the body");
        return Err(Problem::of(place, message).help("remove the name from this list; send a header instead"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_header_fields_that_cannot_be_trailers() {
        let check = |name: &str, underscores: bool, expected: Option<&str>| {
            let of_request =
                Trailers { request: vec!["X-Sum".to_owned(), name.to_owned()], ..Trailers::default() };
            let place = super::check(&of_request, underscores).err().map(|problem| problem.place);
            assert_eq!(place.as_deref(), expected, "{name}");
        };
        let second = Some("trailers.request[1]");
        for name in [
            "Content-Length",
            "Transfer-Encoding",
            "TE",
            "Cookie",
            "X-Weir-Error",
            "X-Forwarded-Host",
            "proxy",
            "a b",
        ] {
            check(name, true, second);
        }
        check("X_Sum", false, second);
        check("X_Sum", true, None);
        check("Digest", false, None);
        let of_response =
            Trailers { response: vec!["X_Sum".to_owned(), "If-Match".to_owned()], ..Trailers::default() };
        let place = super::check(&of_response, false).err().map(|problem| problem.place);
        assert_eq!(place.as_deref(), Some("trailers.response[1]"));
    }

    #[test]
    fn trailer_names_ignore_case() {
        let trailers = Trailers { request: vec!["X-Sum".to_owned()], response: vec!["Y".to_owned()] };
        assert!(trailers.passes_of_request("x-sum") && !trailers.passes_of_request("y"));
        assert!(trailers.passes_of_response("y") && !trailers.passes_of_response("X-Sum"));
    }
}
