//! The requests of a load: the request of each arrival is a pure function of (seed, index).
//!
//! Requests are rendered into one contiguous buffer before the load starts. Requests without placeholders are sent
//! directly from this buffer. For the others, the constant parts are copied and the values are inserted.

mod build;
mod checks;
mod choice;
mod http2;
mod lines;
mod route;
mod search;
pub(crate) mod template;
mod values;

use std::sync::Arc;

use weir_http::ResponseTo;
use weir_results::LeftOut;

use self::build::{Builder, NO_CHECKS};
use self::values::{Part, Value, Values};
use crate::EngineError;
use crate::request_file;
use crate::spec::{LoadSpec, invalid};

pub(crate) use self::checks::{CheckFailed, CheckState, Checks, default_is_unexpected};
pub(crate) use self::choice::Choice;
pub(crate) use self::http2::Http2Request;
pub(crate) use self::lines::{LINES_BYTES_MAX, LINES_MAX};

/// Maximum number of requests that the engine checks before a load, to see whether HTTP/2 can carry them.
const HTTP2_CHECKED_MAX: usize = 10_000;

/// Header field that is added to the last request on a connection.
const CLOSE: &[u8] = b"Connection: close\r\n";

/// The requests of a load. Clones share the same memory.
#[derive(Clone, Debug)]
pub(crate) struct RequestSource {
    shared: Arc<Shared>,
}

/// The arrival and the connection that a request is rendered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The index of the arrival in the whole schedule.
    pub(crate) index: u64,
    /// The index of the connection's domain, if each connection has its own domain (TLS). Otherwise `None`, and each
    /// request has its own domain.
    pub(crate) domain: Option<u32>,
    /// HTTP/1.1: whether this is the last request on the connection, so that `Connection: close` must be sent.
    pub(crate) close: bool,
}

#[derive(Debug)]
struct Shared {
    choice: Choice,
    entries: Vec<Entry>,
    /// All constant bytes: whole requests, and the literal parts of templates.
    bytes: Vec<u8>,
    /// For each request: start and end, in `bytes`, of its variant with `Connection: close`, or an empty range if the
    /// request is not static. The list is empty if these variants are rendered only when they are sent.
    closing: Vec<(u32, u32)>,
    parts: Vec<Part>,
    values: Values,
    routes: Vec<String>,
    checks: Vec<Checks>,
    is_https: bool,
    /// How many entries of a recorded session were left out, and why; `None` if there are none.
    left_out: Option<LeftOut>,
    /// Whether the requests are a recorded session, which is sent in order.
    is_recorded: bool,
}

/// A rendered request.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Start and end of the request: positions in `bytes` for a static request, otherwise in `parts`.
    start: u32,
    end: u32,
    /// Position after the header fields, where another header field can be inserted. The empty line and the body
    /// follow.
    head_end: u32,
    checks: u32,
    route: u16,
    is_static: bool,
    /// Whether the request's own header fields contain `Connection: close`.
    says_close: bool,
    response_to: ResponseTo,
}

impl RequestSource {
    /// Renders the requests of a valid load, and reads the files that they need.
    ///
    /// # Errors
    /// If a template is invalid, or a file cannot be read or has invalid content.
    pub(crate) fn new(spec: &LoadSpec) -> Result<Self, EngineError> {
        let mut builder = Builder::new(spec);
        let mut recorded = None;
        spec.requests.iter().try_for_each(|request| builder.push(request))?;
        if let Some(file) = &spec.request_file {
            let base = file.base(spec.tls.is_some());
            let read = request_file::read_each(&file.path, &base, &mut |request| {
                spec.validate_together(&request)?;
                Ok(builder.push_or_merge(&request)?)
            });
            recorded = read.or_else(|error| invalid("file", error.to_string(), error.remedy))?;
        }
        let is_shuffled = spec.request_file.as_ref().is_some_and(|file| file.shuffle);
        let is_recorded = recorded.is_some() && !is_shuffled;
        let mut shared = builder.finish(spec.tls.is_some(), is_recorded);
        shared.left_out = recorded.filter(|left_out| left_out.count() > 0);
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Checks that HTTP/2 can carry the requests. Of many requests, only the first [`HTTP2_CHECKED_MAX`] are checked.
    ///
    /// # Errors
    /// The first request that HTTP/2 cannot carry.
    pub(crate) fn check_http2(&self) -> Result<(), EngineError> {
        let mut rendered = Http2Request::new();
        for request in 0..self.shared.entries.len().min(HTTP2_CHECKED_MAX) as u32 {
            self.http2(request, &Place { index: 0, domain: None, close: false }, &mut rendered);
            rendered
                .to_http()
                .or_else(|message| invalid("path", message, "correct the request, or use HTTP/1.1"))?;
        }
        Ok(())
    }

    /// Returns the index of the request that `pick` selects. In a mix, `pick` is the index of an arrival, and the
    /// choice is random by weight. In a recorded session, `pick` is a position in the session, modulo its length.
    #[inline]
    pub(crate) fn choose(&self, pick: u64) -> u32 {
        self.shared.choice.of(pick)
    }

    /// Whether the requests are a recorded session that is sent in order.
    pub(crate) fn is_recorded(&self) -> bool {
        self.shared.is_recorded
    }

    /// How many entries of a recorded session were left out, and why; `None` if there are none.
    pub(crate) fn left_out(&self) -> Option<&LeftOut> {
        self.shared.left_out.as_ref()
    }

    /// Returns the index in [`RequestSource::routes`] of the route that the request belongs to.
    #[inline]
    pub(crate) fn route_of(&self, request: u32) -> u16 {
        self.entry(request).route
    }

    /// The names of all routes, configured or derived: at most [`ROUTES_MAX`], then [`OTHER`] if there are more.
    pub(crate) fn routes(&self) -> &[String] {
        &self.shared.routes
    }

    /// What kind of request it is; this decides whether its response can have a body.
    #[inline]
    pub(crate) fn response_to(&self, request: u32) -> ResponseTo {
        self.entry(request).response_to
    }

    /// The checks for responses to the request; `None` if it has none.
    #[inline]
    pub(crate) fn checks(&self, request: u32) -> Option<&Checks> {
        match self.entry(request).checks {
            NO_CHECKS => None,
            number => Some(&self.shared.checks[number as usize]),
        }
    }

    /// Whether the request consists of the same bytes each time.
    #[cfg(test)]
    pub(crate) fn is_static(&self, request: u32) -> bool {
        self.entry(request).is_static
    }

    /// Returns the whole request for HTTP/1.1. A static request is borrowed; others are rendered into `scratch`.
    /// The same `at` gives the same bytes, so a partial write can continue later.
    #[inline]
    pub(crate) fn http1<'a>(&'a self, request: u32, at: &Place, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let (shared, entry) = (&*self.shared, self.entry(request));
        if entry.is_static {
            if !at.close {
                return &shared.bytes[entry.start as usize..entry.end as usize];
            }
            if let Some(&(start, end)) = shared.closing.get(request as usize) {
                return &shared.bytes[start as usize..end as usize];
            }
        }
        scratch.clear();
        shared.append(entry, at, scratch);
        scratch
    }

    /// Renders the request for HTTP/2 into `out`. If `out` already contains this static request, it stays unchanged.
    /// Static requests are compared by index only, so each `out` must always get its requests from the same
    /// `RequestSource`.
    #[inline]
    pub(crate) fn http2(&self, request: u32, at: &Place, out: &mut Http2Request) {
        let entry = self.entry(request);
        let key = entry.is_static.then_some(request);
        if key.is_some() && out.key() == key {
            return;
        }
        let at = Place { close: false, ..*at };
        out.fill(self.shared.is_https, key, |bytes| self.shared.append(entry, &at, bytes));
    }

    #[inline]
    fn entry(&self, request: u32) -> &Entry {
        &self.shared.entries[request as usize]
    }
}

impl Shared {
    fn append(&self, entry: &Entry, at: &Place, out: &mut Vec<u8>) {
        let (start, head_end, end) = (entry.start as usize, entry.head_end as usize, entry.end as usize);
        let close = if at.close && !entry.says_close { CLOSE } else { b"" };
        if entry.is_static {
            out.extend_from_slice(&self.bytes[start..head_end]);
            out.extend_from_slice(close);
            out.extend_from_slice(&self.bytes[head_end..end]);
            return;
        }
        // The first part after the header fields is the empty line, and the body follows.
        let body = &self.parts[head_end + 1..end];
        self.append_parts(&self.parts[start..head_end], body, at, out);
        out.extend_from_slice(close);
        self.append_parts(&self.parts[head_end..end], body, at, out);
    }

    fn append_parts(&self, parts: &[Part], body: &[Part], at: &Place, out: &mut Vec<u8>) {
        for part in parts {
            match *part {
                Part::Literal { start, bytes } => out.extend_from_slice(self.literal(start, bytes)),
                Part::BodyBytes => Value::Number(self.bytes_of(body, at)).append(out),
                drawn => {
                    if let Some(value) = self.values.of(drawn, at) {
                        value.append(out);
                    }
                }
            }
        }
    }

    fn bytes_of(&self, parts: &[Part], at: &Place) -> u64 {
        let of = |part: &Part| match *part {
            Part::Literal { bytes, .. } => u64::from(bytes),
            drawn => self.values.of(drawn, at).map_or(0, Value::bytes),
        };
        parts.iter().map(of).sum()
    }

    fn literal(&self, start: u32, bytes: u32) -> &[u8] {
        &self.bytes[start as usize..start as usize + bytes as usize]
    }
}

#[cfg(test)]
mod tests;
