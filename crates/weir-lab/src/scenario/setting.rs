//! What a load needs in addition to its own fields: addresses, default requests, phases.

use std::net::SocketAddr;

use weir_document::Time;
use weir_engine::{LoadSpec, RequestSpec};

use super::{Popularity, Request, Scenario};

/// What a load needs in addition to its own fields.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The base of the load's specification: server, threads, durations, timeout, seed, and default requests and
    /// tokens. The load adds its own fields.
    pub spec: LoadSpec,
    /// The value of the Host header.
    pub authority: String,
    /// Defaults for the requests in a request file.
    pub base: Request,
    /// The domains of the topology; empty if there is only one.
    pub domains: Vec<String>,
    /// The path that replaces the path of every request of a mix; set in direct cells if gateways rewrite paths.
    pub rewrite: Option<String>,
}

/// The setting of a load in a cell. `direct` is true if the cell has no gateway.
pub(crate) fn setting(
    scenario: &Scenario,
    connect: &[SocketAddr],
    requests: Vec<RequestSpec>,
    direct: bool,
    seed: u64,
) -> Setting {
    let hosts = scenario.topology.hosts();
    let warmup_most = scenario.warmup.0.mul_f64(scenario.thresholds.warmup_growth);
    Setting {
        spec: LoadSpec {
            connect: connect.first().map(SocketAddr::to_string).unwrap_or_default(),
            host: hosts[0].clone(),
            addresses: connect.to_vec(),
            requests,
            workers: scenario.workers,
            warmup_ns: scenario.warmup.as_ns(),
            warmup_most_ns: Time(warmup_most).as_ns(),
            duration_ns: Some(scenario.duration.as_ns()),
            timeout_ns: scenario.timeout.as_ns(),
            seed,
            ..LoadSpec::default()
        },
        authority: hosts[0].clone(),
        base: Request { path: "/".into(), ..Request::default() },
        domains: if hosts.len() > 1 { hosts } else { Vec::new() },
        rewrite: scenario.topology.rewrite.clone().filter(|_| direct),
    }
}

/// One request for each host and path, with the weights of `popularity`. A direct cell sends the requests that a
/// gateway would forward.
pub(crate) fn requests(
    scenario: &Scenario,
    hosts: &[String],
    popularity: Option<Popularity>,
    direct: bool,
) -> Vec<RequestSpec> {
    let topology = &scenario.topology;
    let paths = topology.paths();
    let path_for = |path: &String| match &topology.rewrite {
        Some(rewrite) if direct => rewrite.clone(),
        _ => path.clone(),
    };
    let weight = |rank| popularity.map_or(1.0, |popularity| popularity.weight(rank));
    let request = |(host_rank, host): (usize, &String), (path_rank, path): (usize, &String)| RequestSpec {
        path: path_for(path),
        headers: vec![("Host".into(), host.clone())],
        weight: weight(host_rank) * weight(path_rank),
        ..RequestSpec::default()
    };
    let at_host = |host| paths.iter().enumerate().map(move |path| request(host, path));
    hosts.iter().enumerate().flat_map(at_host).collect()
}
