//! Selects the trailers to pass on from those that the configuration allows. Drops a trailer if the route changes a
//! field of the same name, or if the trailer describes bytes that the gateway has compressed.

use std::sync::Arc;

use weir_config::{Filters, Table};
use weir_http::Framing;

use crate::compress::is_of_bytes;
use crate::request::Plan;
use crate::snapshot::Snapshot;

/// Selects which trailers of one body are passed on. Created only if the configuration allows any trailers and the body
/// is chunked.
#[derive(Debug)]
pub(crate) struct PassedTrailers {
    table: Arc<Table>,
    filters: Option<Arc<Filters>>,
    is_request: bool,
    /// Whether the gateway compresses the body.
    is_coded: bool,
}

impl PassedTrailers {
    /// The trailers to pass on with the request of `plan`. `None` if the configuration allows no request trailers, or
    /// the body is not chunked.
    #[inline]
    pub(crate) fn of_request(plan: &Plan, snapshot: &Snapshot) -> Option<Box<PassedTrailers>> {
        match snapshot.table.trailers.request.is_empty() || plan.framing != Framing::Chunked {
            true => None,
            false => Some(PassedTrailers::of(plan, snapshot, (true, false))),
        }
    }

    /// The trailers to pass on with the response to the request of `plan`. `framing` is the framing of the response;
    /// `is_coded` is true if the gateway compresses the response. `None` if no trailer is passed on.
    #[inline]
    pub(crate) fn of_response(
        plan: &Plan,
        (framing, is_coded): (Framing, bool),
        snapshot: &Snapshot,
    ) -> Option<Box<PassedTrailers>> {
        match snapshot.table.trailers.response.is_empty() || framing != Framing::Chunked {
            true => None,
            false => Some(PassedTrailers::of(plan, snapshot, (false, is_coded))),
        }
    }

    #[cold]
    fn of(plan: &Plan, snapshot: &Snapshot, (is_request, is_coded): (bool, bool)) -> Box<PassedTrailers> {
        let filters = plan.filtered.as_deref().map(|filtered| filtered.shared_filters(snapshot));
        Box::new(PassedTrailers { table: Arc::clone(&snapshot.table), filters, is_request, is_coded })
    }

    /// The lines of `trailers` that pass. `trailers` holds complete field lines with their line ends.
    pub(crate) fn passing(&self, trailers: &[u8]) -> Vec<u8> {
        let mut passing = Vec::new();
        for line in trailers.split_inclusive(|&byte| byte == b'\n') {
            let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
            if std::str::from_utf8(name).is_ok_and(|name| self.passes(name)) {
                passing.extend_from_slice(line);
            }
        }
        passing
    }

    fn passes(&self, name: &str) -> bool {
        let (is_allowed, changes) = match (self.is_request, &self.filters) {
            (true, filters) => (
                self.table.trailers.passes_of_request(name),
                filters.as_ref().and_then(|filters| filters.route.request_headers.as_deref()),
            ),
            (false, filters) => (
                self.table.trailers.passes_of_response(name),
                filters.as_ref().and_then(|filters| filters.route.response_headers.as_deref()),
            ),
        };
        let is_stale = self.is_coded && is_of_bytes(name);
        is_allowed && !is_stale && changes.is_none_or(|changes| changes.keeps(name))
    }
}
