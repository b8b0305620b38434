//! The request source: what each arrival sends, a pure function of (seed, index).
//!
//! Requests are laid down before the clock starts, one behind the other in one piece of memory. Those without
//! placeholders are sent from there; of the others, the parts that stay are copied and the rest is drawn.

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

/// Requests that are looked at before the load, whether HTTP/2 can carry them.
const HTTP2_CHECKED_MAX: usize = 10_000;

/// What is added to the last request of a connection.
const CLOSE: &[u8] = b"Connection: close\r\n";

/// The requests of a load. A clone shares them.
#[derive(Clone, Debug)]
pub(crate) struct RequestSource {
    shared: Arc<Shared>,
}

/// Where a request is sent: what its rendering depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The arrival's index in the whole schedule.
    pub(crate) index: u64,
    /// The domain of the connection, where it has one of its own (TLS).
    pub(crate) domain: Option<u32>,
    /// HTTP/1.1: whether it is the connection's last request, and says so.
    pub(crate) close: bool,
}

#[derive(Debug)]
struct Shared {
    choice: Choice,
    entries: Vec<Entry>,
    /// All that stays the same: whole requests, and the literal parts of templates.
    bytes: Vec<u8>,
    /// By request: where in `bytes` its variant is that closes the connection; empty where they are put together.
    closing: Vec<(u32, u32)>,
    parts: Vec<Part>,
    values: Values,
    routes: Vec<String>,
    checks: Vec<Checks>,
    is_https: bool,
    /// What was left out of a recorded session.
    left_out: Option<LeftOut>,
    /// Whether the requests are a recorded session, in its order.
    is_recorded: bool,
}

/// A request.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Among the bytes where it is static, else among the parts.
    start: u32,
    end: u32,
    /// Where another field of the head can be put in; the empty line and the body follow.
    head_end: u32,
    checks: u32,
    route: u16,
    is_static: bool,
    /// Whether its own fields say that the connection is to be closed.
    says_close: bool,
    response_to: ResponseTo,
}

impl RequestSource {
    /// Lays down the requests of a valid load, and reads their files.
    ///
    /// # Errors
    /// When a template makes no sense, or a file cannot be read or has what does not fit.
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

    /// Whether HTTP/2 can carry the requests; of very many, the first are looked at.
    ///
    /// # Errors
    /// With the first that it cannot.
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

    /// The request that `pick` chooses: of a mix by weight, `pick` being an arrival's index; of a recorded session the
    /// one in that place, over and over.
    #[inline]
    pub(crate) fn choose(&self, pick: u64) -> u32 {
        self.shared.choice.of(pick)
    }

    /// Whether requests are sent in the order of a recorded session.
    pub(crate) fn is_recorded(&self) -> bool {
        self.shared.is_recorded
    }

    /// What was left out of a recorded session, if anything was.
    pub(crate) fn left_out(&self) -> Option<&LeftOut> {
        self.shared.left_out.as_ref()
    }

    /// The number of the request's route among [`RequestSource::routes`].
    #[inline]
    pub(crate) fn route_of(&self, request: u32) -> u16 {
        self.entry(request).route
    }

    /// The names of all routes, given or derived: [`ROUTES_MAX`] at most, and then [`OTHER`].
    pub(crate) fn routes(&self) -> &[String] {
        &self.shared.routes
    }

    /// What the request's response answers, which decides whether it can have a body.
    #[inline]
    pub(crate) fn response_to(&self, request: u32) -> ResponseTo {
        self.entry(request).response_to
    }

    /// What the request's answers must be; `None` where that is not checked.
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

    /// The whole request as HTTP/1.1 sends it: borrowed where it is ready, else rendered into `scratch`. The same
    /// place gives the same bytes, so what was written in part can be asked for again.
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

    /// The request as HTTP/2 sends it. One that is the same each time is left as it is where `out` holds it, so
    /// `out` belongs to one source.
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
        // The first part behind the head's fields is the empty line.
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
