//! The request source: the request of each arrival, a pure function of (seed, index).
//!
//! Requests are rendered before the clock starts, into one contiguous buffer. Requests without placeholders are sent
//! from there. For the others, fixed parts are copied and the rest is generated.

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

/// Number of requests that are checked before the load for whether HTTP/2 can carry them.
const HTTP2_CHECKED_MAX: usize = 10_000;

/// Header field that is added to the last request of a connection.
const CLOSE: &[u8] = b"Connection: close\r\n";

/// The requests of a load. A clone shares them.
#[derive(Clone, Debug)]
pub(crate) struct RequestSource {
    shared: Arc<Shared>,
}

/// Where a request is sent. Rendering depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The arrival's index in the whole schedule.
    pub(crate) index: u64,
    /// The domain of the connection, if connections have their own (TLS).
    pub(crate) domain: Option<u32>,
    /// HTTP/1.1: whether it is the last request of the connection, and must say so.
    pub(crate) close: bool,
}

#[derive(Debug)]
struct Shared {
    choice: Choice,
    entries: Vec<Entry>,
    /// All constant bytes: whole requests, and the literal parts of templates.
    bytes: Vec<u8>,
    /// By request: position in `bytes` of the variant that closes the connection; empty if variants are rendered on
    /// demand.
    closing: Vec<(u32, u32)>,
    parts: Vec<Part>,
    values: Values,
    routes: Vec<String>,
    checks: Vec<Checks>,
    is_https: bool,
    /// Entries of a recorded session that were left out.
    left_out: Option<LeftOut>,
    /// Whether the requests are a recorded session, in order.
    is_recorded: bool,
}

/// A request.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Index into the bytes for a static request, otherwise into the parts.
    start: u32,
    end: u32,
    /// Where another header field can be inserted; the empty line and the body follow.
    head_end: u32,
    checks: u32,
    route: u16,
    is_static: bool,
    /// Whether its own header fields close the connection.
    says_close: bool,
    response_to: ResponseTo,
}

impl RequestSource {
    /// Renders the requests of a valid load, and reads their files.
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

    /// Checks that HTTP/2 can carry the requests. Of a large number, only the first are checked.
    ///
    /// # Errors
    /// With the first request that it cannot carry.
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

    /// The request that `pick` selects. In a mix, `pick` is an arrival's index, and the choice is by weight. In a
    /// recorded session it is a position, modulo the length of the session.
    #[inline]
    pub(crate) fn choose(&self, pick: u64) -> u32 {
        self.shared.choice.of(pick)
    }

    /// Whether requests are sent in the order of a recorded session.
    pub(crate) fn is_recorded(&self) -> bool {
        self.shared.is_recorded
    }

    /// Entries of a recorded session that were left out, if any.
    pub(crate) fn left_out(&self) -> Option<&LeftOut> {
        self.shared.left_out.as_ref()
    }

    /// The index of the request's route in [`RequestSource::routes`].
    #[inline]
    pub(crate) fn route_of(&self, request: u32) -> u16 {
        self.entry(request).route
    }

    /// The names of all routes, given or derived: at most [`ROUTES_MAX`], followed by [`OTHER`].
    pub(crate) fn routes(&self) -> &[String] {
        &self.shared.routes
    }

    /// The kind of request that the response answers, which decides whether the response can have a body.
    #[inline]
    pub(crate) fn response_to(&self, request: u32) -> ResponseTo {
        self.entry(request).response_to
    }

    /// Checks of the request's responses; `None` if there are none.
    #[inline]
    pub(crate) fn checks(&self, request: u32) -> Option<&Checks> {
        match self.entry(request).checks {
            NO_CHECKS => None,
            number => Some(&self.shared.checks[number as usize]),
        }
    }

    /// Whether the request is the same each time.
    #[cfg(test)]
    pub(crate) fn is_static(&self, request: u32) -> bool {
        self.entry(request).is_static
    }

    /// The whole request for HTTP/1.1, borrowed if it is static, otherwise rendered into `scratch`. The same place
    /// gives the same bytes, so that a partial write can continue.
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

    /// The request for HTTP/2. If `out` already contains this static request, it stays unchanged. So `out` must belong
    /// to one source.
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
        // The first part after the header fields is the empty line.
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
