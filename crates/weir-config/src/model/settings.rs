//! Settings of the whole gateway: everything except listeners, routes and backends.

use weir_document::Problem;

use super::access_log::{AccessLog, Metrics};
use super::drain::Drain;
use super::forwarding::Forwarding;
use super::limits::Limits;
use super::overload::Overload;
use super::program_log::ProgramLog;
use super::resolver::Resolver;
use super::timeouts::Timeouts;
use super::trailers::Trailers;
use super::{access_log, drain, forwarding, limits, overload, resolver, timeouts, trailers};
use crate::path::PathRules;
use crate::problem::failed;

pub(crate) const WORKERS_MAX: u32 = 1024;

/// Settings of the whole gateway: everything except listeners, routes and backends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Number of worker threads; `None` means one per CPU, limited by the cgroup quota.
    pub workers: Option<u32>,
    /// Normalization of request paths.
    pub paths: PathRules,
    /// DNS servers that resolve the host names of endpoints.
    pub resolver: Box<Resolver>,
    /// Limits on sizes and connections.
    pub limits: Limits,
    /// Thresholds above which the gateway sheds load (503).
    pub overload: Overload,
    /// Timeouts for clients and upstreams.
    pub timeouts: Timeouts,
    /// Graceful shutdown.
    pub drain: Drain,
    /// Settings of the access log; `None` if there is none.
    pub access_log: Option<AccessLog>,
    /// Log of the program itself, on standard error.
    pub log: ProgramLog,
    /// Optional metrics.
    pub metrics: Metrics,
    /// Headers with client address, request ID and trace that the gateway adds to upstream requests.
    pub forwarding: Forwarding,
    /// Whether to forward request headers whose names contain characters other than letters, digits and `-`.
    pub underscores_in_headers: bool,
    /// Trailers to forward, by name.
    pub trailers: Trailers,
}

/// Validates the settings. Returns at most one problem per section.
pub(crate) fn check(settings: &Settings) -> Vec<Problem> {
    let workers = settings.workers.filter(|workers| !(1..=WORKERS_MAX).contains(workers));
    let workers = workers.map_or(Ok(()), |workers| {
        Err(Problem::of("workers", format!("{workers} is out of range; allowed: 1 to {WORKERS_MAX}"))
            .help("remove the field to use one worker per CPU"))
    });
    failed([
        workers,
        settings.access_log.as_ref().map_or(Ok(()), access_log::check),
        forwarding::check(&settings.forwarding),
        trailers::check(&settings.trailers, settings.underscores_in_headers),
        resolver::check(&settings.resolver),
        limits::check(&settings.limits),
        overload::check(&settings.overload),
        timeouts::check(&settings.timeouts),
        drain::check(&settings.drain),
    ])
}
