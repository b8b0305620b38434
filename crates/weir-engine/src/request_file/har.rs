//! Recorded sessions: HAR 1.2 (<http://www.softwareishard.com/blog/har-12-spec/>), of which only requests matter.

use std::fmt::Write as _;

use serde::Deserialize;
use weir_document::DocumentError;

use super::{Base, Fault, Sink, set_fields, target};
use crate::request::template::has_placeholder;
use crate::spec::{Body, RequestSpec};

// Browsers add fields of their own, so that unknown ones are no mistake here.
#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Recorded,
}

#[derive(Deserialize)]
struct Recorded {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    #[serde(rename = "postData")]
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    text: Option<String>,
    encoding: Option<String>,
    #[serde(default)]
    params: Vec<serde::de::IgnoredAny>,
}

pub(super) fn parse(source_name: &str, text: &str, base: &Base, sink: Sink<'_>) -> Result<(), DocumentError> {
    // The name's ending says that it is JSON and nothing else.
    let har = weir_document::read::<Har>(".json", text)
        .map_err(|error| DocumentError { source_name: source_name.to_owned(), ..error })?;
    for (entry, number) in har.log.entries.into_iter().zip(0u32..) {
        // Data, extensions, WebSockets: these were no requests of HTTP.
        if has_other_scheme(&entry.request.url) {
            continue;
        }
        entry.request.into_request(base).and_then(&mut *sink).map_err(|fault| {
            let path = ["log", "entries", &number.to_string(), "request"];
            let (line, column) = weir_document::place(text, &path).unwrap_or((1, 1));
            fault.at(source_name, line, column)
        })?;
    }
    Ok(())
}

/// Whether a URL has a scheme, and it is not HTTP's.
fn has_other_scheme(url: &str) -> bool {
    let Some((scheme, _)) = url.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme && !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

impl Recorded {
    fn into_request(self, base: &Base) -> Result<RequestSpec, Fault> {
        let mut request = RequestSpec { method: self.method, ..base.request.clone() };
        target::apply(&mut request, &encoded(&self.url), base)?;
        let mut fields = Vec::new();
        for Field { name, value } in self.headers {
            // HTTP/2's pseudo-fields and the connection's own are not a request's, and the URL says Host.
            let is_of_the_message = ["host", "content-length", "http2-settings"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known));
            if name.starts_with(':') || is_of_the_message || weir_http::is_hop_by_hop(&name) {
                continue;
            }
            if has_placeholder(&value) {
                let message = format!("the recorded value of `{name}` has what would be filled in");
                return Err(Fault::new(message, "change the value, or write the request as a JSON line"));
            }
            fields.push((name, value));
        }
        set_fields(&mut request.headers, fields);
        request.body = body(self.post_data)?;
        Ok(request)
    }
}

fn body(post_data: Option<PostData>) -> Result<Body, Fault> {
    use base64::Engine as _;
    let Some(PostData { text, encoding, params }) = post_data else { return Ok(Body::Text(String::new())) };
    match (text, encoding.as_deref()) {
        (None, _) if !params.is_empty() => {
            Err(Fault::new("`postData` has parameters and no text", "record the session with its bodies"))
        }
        (None, _) => Ok(Body::Text(String::new())),
        (Some(text), Some("base64")) => Ok(Body::Base64(text)),
        (Some(_), Some(other)) if !other.is_empty() => {
            let message = format!("`postData` has the unknown encoding `{other}`");
            Err(Fault::new(message, "`base64` is known, or none"))
        }
        (Some(text), _) if has_placeholder(&text) => {
            Ok(Body::Base64(base64::engine::general_purpose::STANDARD.encode(text)))
        }
        (Some(text), _) => Ok(Body::Text(text)),
    }
}

/// A recorded URL, with what a browser shows but does not send encoded, and braces, which are no templates here.
fn encoded(url: &str) -> String {
    let mut encoded = String::with_capacity(url.len());
    for byte in url.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
