//! The `/clusters` page of the admin server: backends, their counters, and the state of each endpoint.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde::Serialize;
use weir_config::{BackendEntry, Balance, Endpoint, EndpointAddress, UpstreamAddress};
use weir_io::mono_ns;

use crate::backend_state::BackendState;
use crate::backend_states::{BackendReport, BackendStates};
use crate::endpoint_state::{EndpointReport, Standing};
use crate::gateway::Gateway;
use crate::stats::{BackendStats, ByStatus};

/// A backend with its counters.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ClusterPage {
    /// Whether the configuration no longer contains the backend. It is shown until its connections and requests end.
    leaving: bool,
    /// Whether connections to the endpoints use TLS; absent if the configuration no longer contains the backend.
    tls: Option<bool>,
    balance: Option<Balance>,
    /// The configured endpoints in order, then removed endpoints that still have connections or requests.
    endpoints: Vec<EndpointPage>,
    /// The DNS names of the backend's endpoints, with their resolved addresses.
    names: BTreeMap<String, Vec<IpAddr>>,
    /// Open connections.
    open: u64,
    counters: BackendStats,
    /// Final responses to requests for this backend, including responses of the gateway itself.
    by_status: ByStatus,
}

/// An endpoint with its counters.
#[derive(Debug, Serialize)]
struct EndpointPage {
    address: String,
    /// The DNS name in the configuration; absent for a literal address.
    name: Option<String>,
    /// The configured weight; absent for a removed endpoint.
    weight: Option<u32>,
    /// State of the endpoint: `in`, `out` or `draining`.
    state: &'static str,
    /// Why the state is `out`; empty for the other states.
    reasons: Vec<&'static str>,
    /// When the state began; absent before the first use of the endpoint.
    since: Option<String>,
    /// End of the ejection; absent if the endpoint is not ejected.
    until: Option<String>,
    requests_in_flight: u64,
    connections: u64,
    requests: u64,
    errors: u64,
    ejections: u64,
    checks_passed: u64,
    checks_failed: u64,
    /// Error of the last failed health check; absent if none failed.
    last_check_failure: Option<String>,
}

/// The monotonic clock and the time of day, read at the same moment, to convert one into the other.
#[derive(Clone, Copy)]
struct Clocks {
    mono_ns: u64,
    /// Time since 1970.
    unix_ns: u128,
}

/// The active and the leaving backends by name.
pub(crate) fn pages(gateway: &Gateway) -> BTreeMap<String, ClusterPage> {
    let (table, stats, clocks) = (gateway.table(), gateway.stats(), Clocks::now());
    let states = gateway.backends();
    let mut by_status: HashMap<&str, ByStatus> = HashMap::new();
    for route in &stats.routes {
        by_status.entry(route.backend.as_str()).or_default().add(route.by_status);
    }
    let page = |name: &str, state: Option<&BackendState>| {
        let BackendReport { open, counters } = state.map(BackendState::account).unwrap_or_default();
        let by_status = by_status.get(name).copied().unwrap_or_default();
        ClusterPage { leaving: true, open, counters, by_status, ..ClusterPage::default() }
    };
    let leaving = states.leaving(&table).into_iter().map(|(name, state)| {
        let endpoints = left(state.endpoint_reports(), clocks);
        let page = ClusterPage { endpoints, ..page(&name, Some(&state)) };
        (name, page)
    });
    let active = table.backends().iter().map(|entry| {
        let state = states.known_of(&entry.name);
        let page = ClusterPage {
            leaving: false,
            tls: Some(entry.tls.is_some()),
            balance: Some(entry.backend.balance.clone()),
            endpoints: endpoints(entry, (states, state.as_deref()), clocks),
            names: names(entry, states),
            ..page(&entry.name, state.as_deref())
        };
        (entry.name.clone(), page)
    });
    leaving.chain(active).collect()
}

fn names(entry: &BackendEntry, states: &BackendStates) -> BTreeMap<String, Vec<IpAddr>> {
    entry.backend.names().map(|host| (host.to_owned(), states.names.addresses(host))).collect()
}

fn endpoints(
    entry: &BackendEntry,
    (states, state): (&BackendStates, Option<&BackendState>),
    clocks: Clocks,
) -> Vec<EndpointPage> {
    let reports = state.map(BackendState::endpoint_reports).unwrap_or_default();
    let mut reports: HashMap<UpstreamAddress, EndpointReport> =
        reports.into_iter().map(|report| (report.address.clone(), report)).collect();
    let mut pages = Vec::new();
    let mut listed = Vec::new();
    for endpoint in &entry.backend.endpoints {
        let Endpoint { address, weight } = endpoint;
        let name = matches!(address, EndpointAddress::Name { .. }).then(|| address.to_string());
        for address in address.resolved(|host| states.names.addresses(host)) {
            let page = EndpointPage::of(&address, reports.get(&address), clocks);
            pages.push(EndpointPage { name: name.clone(), weight: Some(*weight), ..page });
            listed.push(address);
        }
    }
    listed.iter().for_each(|address| drop(reports.remove(address)));
    pages.extend(left(reports.into_values().collect(), clocks));
    pages
}

/// The page's entries for removed endpoints, sorted by address.
fn left(mut reports: Vec<EndpointReport>, clocks: Clocks) -> Vec<EndpointPage> {
    reports.sort_by(|a, b| a.address.cmp(&b.address));
    reports.iter().map(|report| EndpointPage::of(&report.address, Some(report), clocks)).collect()
}

impl EndpointPage {
    /// The entry of the endpoint at this address. `report` is `None` if the endpoint was never used.
    fn of(address: &UpstreamAddress, report: Option<&EndpointReport>, clocks: Clocks) -> EndpointPage {
        let count = |of: fn(&EndpointReport) -> u64| report.map_or(0, of);
        let (state, reasons) = match report.map(|report| &report.standing) {
            None | Some(Standing::In) => ("in", Vec::new()),
            Some(Standing::Out(reasons)) => ("out", reasons.clone()),
            Some(Standing::Draining) => ("draining", Vec::new()),
        };
        EndpointPage {
            address: address.to_string(),
            name: None,
            weight: None,
            state,
            reasons,
            since: report.map(|report| clocks.text(report.since_ns)),
            until: report.and_then(|report| report.until_ns).map(|ns| clocks.text(ns)),
            requests_in_flight: count(|report| report.requests_in_flight),
            connections: count(|report| report.connections),
            requests: count(|report| report.requests),
            errors: count(|report| report.errors),
            ejections: count(|report| report.ejections),
            checks_passed: count(|report| report.checks_passed),
            checks_failed: count(|report| report.checks_failed),
            last_check_failure: report.and_then(|report| report.check_failure.as_deref()).map(str::to_owned),
        }
    }
}

impl Clocks {
    fn now() -> Clocks {
        let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        Clocks { mono_ns: mono_ns(), unix_ns }
    }

    /// Converts a monotonic time to UTC, in whole seconds.
    fn text(self, ns: u64) -> String {
        let unix_ns = (self.unix_ns + u128::from(ns)).saturating_sub(u128::from(self.mono_ns));
        let second = i64::try_from(unix_ns / 1_000_000_000).unwrap_or(i64::MAX);
        Timestamp::from_second(second).map_or(String::new(), |time| time.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_monotonic_times_to_utc() {
        let clocks = Clocks { mono_ns: 5_000_000_000, unix_ns: 951_782_400_000_000_000 };
        assert_eq!(clocks.text(5_999_999_999), "2000-02-29T00:00:00Z");
        assert_eq!(clocks.text(4_000_000_000), "2000-02-28T23:59:59Z");
        assert_eq!(clocks.text(65_000_000_000), "2000-02-29T00:01:00Z");
    }
}
