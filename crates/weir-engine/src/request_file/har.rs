//! Reads recorded sessions in the format HAR 1.2 (<http://www.softwareishard.com/blog/har-12-spec/>).
//!
//! Requests to the recorded host are sent to the load's target, whatever their scheme. Requests to other hosts are left
//! out and counted. The recorded host is the target's own host if the session contains it. Otherwise it is the host of
//! the first HTML response with a status of class 2xx. If there is no such response, it is the host of the first
//! request.

use std::fmt::Write as _;

use serde::Deserialize;
use weir_document::{Position, Problem};
use weir_results::LeftOut;

use super::target::{self, Url};
use super::{Base, Sink, set_field, set_fields};
use crate::request::template::has_placeholder;
use crate::spec::{Body, RequestSpec};

// Browsers add their own members, so unknown members are allowed in these types.
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
    response: Option<Response>,
}

/// The part of a recorded response that shows whether it is an HTML page.
#[derive(Deserialize)]
struct Response {
    status: Option<f64>,
    content: Option<Content>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(rename = "mimeType")]
    mime_type: Option<String>,
}

#[derive(Deserialize)]
struct Recorded {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    #[serde(default)]
    cookies: Vec<Field>,
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

/// Passes the requests of the session to `sink` in order. Returns how many entries it left out, and why.
pub(super) fn parse(
    source_name: &str,
    text: &str,
    base: &Base,
    sink: Sink<'_>,
) -> Result<LeftOut, Problem<Position>> {
    // The name `.json` makes `read` accept only JSON.
    let har = weir_document::read::<Har>(".json", text).map_err(|error| error.renamed(source_name))?;
    let entries = har.log.entries;
    let target = Target { base, recorded: recorded_host(&entries, base) };
    let mut left_out = LeftOut { entries: entries.len() as u64, ..LeftOut::default() };
    for (entry, number) in entries.into_iter().zip(0u32..) {
        if !entry.is_http() {
            left_out.not_http += 1;
            continue;
        }
        if let Some(host) = entry.host().filter(|host| Some(host) != target.recorded.as_ref()) {
            left_out.add_host(host);
            continue;
        }
        target.request(entry.request).and_then(&mut *sink).map_err(|fault| {
            let path = ["log", "entries", &number.to_string(), "request"];
            let (line, column) = weir_document::place(text, &path).unwrap_or((1, 1));
            fault.at(Position::new(source_name, line, column))
        })?;
    }
    Ok(left_out)
}

/// Returns the recorded host whose requests weir sends to the target, in the form of [`Url::host_and_port`]. weir skips
/// requests to other recorded hosts. `None` if no entry has a host.
fn recorded_host(entries: &[Entry], base: &Base) -> Option<String> {
    let hosts = || entries.iter().filter(|entry| entry.is_http()).filter_map(Entry::host);
    let own = base.host().map(|authority| Url { scheme: base.scheme(), authority, path: "" }.host_and_port());
    if let Some(own) = own.filter(|own| hosts().any(|host| host == *own)) {
        return Some(own);
    }
    let page = entries.iter().filter(|entry| entry.is_http() && entry.is_page()).find_map(Entry::host);
    page.or_else(|| hosts().next())
}

impl Entry {
    /// Whether this is an HTTP request, and not a data URL, a browser extension or a WebSocket.
    fn is_http(&self) -> bool {
        let is_upgraded = self.status() == Some(101.0);
        !is_upgraded && !has_other_scheme(&self.request.url)
    }

    fn is_page(&self) -> bool {
        let content = self.response.as_ref().and_then(|response| response.content.as_ref());
        let is_html = content.and_then(|content| content.mime_type.as_deref()).is_some_and(|mime_type| {
            mime_type.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("text/html"))
        });
        is_html && self.status().is_some_and(|status| (200.0..300.0).contains(&status))
    }

    fn status(&self) -> Option<f64> {
        self.response.as_ref()?.status
    }

    fn host(&self) -> Option<String> {
        Url::split(&self.request.url).map(|url| url.host_and_port())
    }
}

/// Whether a URL has a scheme other than `http` or `https`.
fn has_other_scheme(url: &str) -> bool {
    let Some((scheme, _)) = url.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme && !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Rejects a text with a placeholder, because recorded requests are sent unchanged.
fn refuse_placeholder(value: &str, what: impl FnOnce() -> String) -> Result<(), Problem<()>> {
    match has_placeholder(value) {
        true => {
            let message = format!("{} contains a placeholder", what());
            Err(Problem::new(message, "change the value, or write the request as a JSON line"))
        }
        false => Ok(()),
    }
}

/// The load's target, and the recorded host that it replaces.
struct Target<'a> {
    base: &'a Base,
    recorded: Option<String>,
}

impl Target<'_> {
    /// Converts a recorded request to a request for the target.
    fn request(&self, recorded: Recorded) -> Result<RequestSpec, Problem<()>> {
        let mut request = RequestSpec { method: recorded.method, ..self.base.request.clone() };
        let url = encoded(&recorded.url);
        match Url::split(&url) {
            Some(Url { authority, path, .. }) => {
                target::check_authority(authority)?;
                if self.base.host().is_none() {
                    set_field(&mut request.headers, "Host", authority.to_owned());
                }
                request.path = target::with_slash(path);
            }
            None => target::apply(&mut request, &url, self.base)?,
        }
        set_fields(&mut request.headers, self.fields(recorded.headers, recorded.cookies)?);
        request.body = body(recorded.post_data)?;
        Ok(request)
    }

    /// Returns the recorded header fields that are sent to the target.
    fn fields(&self, headers: Vec<Field>, cookies: Vec<Field>) -> Result<Vec<(String, String)>, Problem<()>> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for Field { name, value } in headers {
            // HTTP/2 pseudo-header fields, and header fields that apply to one connection or message, are not sent.
            // Host is replaced with the host of the target.
            let is_of_the_message = ["host", "content-length", "http2-settings"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known));
            if name.starts_with(':') || is_of_the_message || weir_http::is_hop_by_hop(&name) {
                continue;
            }
            refuse_placeholder(&value, || format!("the recorded value of `{name}`"))?;
            let is_cookie = name.eq_ignore_ascii_case("cookie");
            match fields.iter_mut().find(|(given, _)| is_cookie && given.eq_ignore_ascii_case("cookie")) {
                // HTTP/2 may split the cookie field; HTTP/1.1 has a single one (RFC 9113, 8.2.3).
                Some((_, before)) => *before += &format!("; {value}"),
                None => {
                    let value = self.mapped(&name, value);
                    fields.push((name, value));
                }
            }
        }
        let has_cookie = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        if !has_cookie && !cookies.is_empty() {
            // Some recorders list cookies only outside of the header fields.
            let pairs: Vec<String> =
                cookies.into_iter().map(|Field { name, value }| format!("{name}={value}")).collect();
            let value = pairs.join("; ");
            refuse_placeholder(&value, || "a recorded cookie".to_owned())?;
            fields.push(("Cookie".to_owned(), value));
        }
        Ok(fields)
    }

    /// Replaces the recorded host with the target in Origin and Referer, because servers compare these with Host.
    fn mapped(&self, name: &str, value: String) -> String {
        let is_pointer = ["origin", "referer"].iter().any(|known| name.eq_ignore_ascii_case(known));
        let Some(host) = self.base.host().filter(|_| is_pointer) else { return value };
        match Url::split(&value) {
            Some(url) if Some(url.host_and_port()) == self.recorded => {
                format!("{}://{host}{}", self.base.scheme(), url.path)
            }
            _ => value,
        }
    }
}

fn body(post_data: Option<PostData>) -> Result<Body, Problem<()>> {
    use base64::Engine as _;
    let Some(PostData { text, encoding, params }) = post_data else { return Ok(Body::Text(String::new())) };
    match (text, encoding.as_deref()) {
        (None, _) if !params.is_empty() => Err(Problem::new(
            "`postData` has parameters but no text",
            "record the session again, with request bodies",
        )),
        (None, _) => Ok(Body::Text(String::new())),
        (Some(text), Some("base64")) => Ok(Body::Base64(text)),
        (Some(_), Some(other)) if !other.is_empty() => {
            let message = format!("unknown encoding `{other}` in `postData`");
            Err(Problem::new(message, "use `base64`, or remove the encoding"))
        }
        (Some(text), _) if has_placeholder(&text) => {
            Ok(Body::Base64(base64::engine::general_purpose::STANDARD.encode(text)))
        }
        (Some(text), _) => Ok(Body::Text(text)),
    }
}

/// Percent-encodes braces and characters that a URL cannot contain. Browsers show such characters in the recording,
/// but send them encoded. Braces are not placeholders here.
fn encoded(url: &str) -> String {
    let mut encoded = String::with_capacity(url.len());
    for byte in url.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
