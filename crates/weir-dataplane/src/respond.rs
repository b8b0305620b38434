//! Responses of the gateway itself.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime};

use weir_http::{append_content_length, append_field, append_status_line};

use crate::cause::Cause;
use crate::request::Routed;

/// The header field that names the cause of a response of the gateway itself. It is dropped from upstream responses.
pub(crate) const CAUSE_FIELD: &str = "X-Weir-Error";

/// A response of the gateway that ends an exchange.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    /// The route that matches the request, if any.
    pub(crate) routed: Option<Routed>,
    /// A text that replaces the cause's text, if more is known.
    pub(crate) detail: Option<String>,
    /// Further header lines, each with its line end.
    pub(crate) fields: Vec<u8>,
    /// The redirect target.
    pub(crate) location: Option<String>,
    /// Whether the request was HEAD, so that the response has no body.
    pub(crate) head_only: bool,
    /// Whether the connection closes after the response.
    pub(crate) close: bool,
}

impl Refusal {
    pub(crate) fn new(cause: Cause) -> Refusal {
        Refusal {
            cause,
            routed: None,
            detail: None,
            fields: Vec::new(),
            location: None,
            head_only: false,
            close: true,
        }
    }

    /// Appends the complete response.
    pub(crate) fn append(&self, out: &mut Vec<u8>, date: &[u8]) {
        let name = self.cause.name();
        let status = self.cause.status();
        let text = self.detail.as_deref().unwrap_or(self.cause.text());
        let body = format!("{status} {name}: {text}\n");
        append_status_line(out, status);
        append_field(out, CAUSE_FIELD, name.as_bytes());
        if status == 401 {
            append_field(out, "WWW-Authenticate", challenge(self.cause));
        }
        out.extend_from_slice(&self.fields);
        if let Some(location) = &self.location {
            append_field(out, "Location", location.as_bytes());
        }
        append_field(out, "Date", date);
        append_field(out, "Content-Type", b"text/plain; charset=utf-8");
        append_content_length(out, body.len() as u64);
        if self.close {
            append_field(out, "Connection", b"close");
        }
        out.extend_from_slice(b"\r\n");
        if !self.head_only {
            out.extend_from_slice(body.as_bytes());
        }
    }
}

/// The `WWW-Authenticate` challenge (RFC 6750, 3). Without a token in the request, it contains no error.
fn challenge(cause: Cause) -> &'static [u8] {
    match cause {
        Cause::UnknownToken => b"Bearer error=\"invalid_token\"",
        _ => b"Bearer",
    }
}

/// The `Date` of responses, formatted once a second.
#[derive(Debug, Default)]
pub(crate) struct DateText {
    second: Cell<u64>,
    text: RefCell<String>,
}

impl DateText {
    /// Updates the text of the `Date` header if the second has changed.
    pub(crate) fn refresh(&self) {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        if self.second.replace(since_epoch.as_secs()) != since_epoch.as_secs()
            || self.text.borrow().is_empty()
        {
            let second = SystemTime::UNIX_EPOCH + Duration::from_secs(since_epoch.as_secs());
            *self.text.borrow_mut() = httpdate::fmt_http_date(second);
        }
    }

    pub(crate) fn text(&self) -> std::cell::Ref<'_, String> {
        self.text.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_names_its_cause() {
        let mut out = Vec::new();
        Refusal { close: false, ..Refusal::new(Cause::NoRoute) }
            .append(&mut out, b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 404 Not Found\r\nX-Weir-Error: no_route\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Length: 44\r\n\r\n\
             404 no_route: no route matches this request\n"
        );
    }
}
