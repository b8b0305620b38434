//! What a load needs beyond its own fields: addresses, requests, phases.

use std::net::SocketAddr;
use std::time::Duration;

use weir_engine::{RequestSpec, ResolveSpec};

use super::{Popularity, Request, Scenario};

/// What a load needs beyond its own fields.
#[derive(Clone, Debug)]
pub struct Setting {
    /// `host:port` to connect to.
    pub connect: String,
    /// The server name, which a certificate must contain.
    pub host: String,
    /// The value of the Host header.
    pub authority: String,
    /// Addresses that replace name resolution.
    pub resolve: Vec<ResolveSpec>,
    /// Addresses to connect to instead of these, in turn.
    pub addresses: Vec<SocketAddr>,
    /// The requests of a load without a mix.
    pub requests: Vec<RequestSpec>,
    /// Defaults for requests of a file.
    pub base: Request,
    /// The domains of the topology, if there are several.
    pub domains: Vec<String>,
    /// Bearer tokens of a load without a token file.
    pub tokens: Vec<String>,
    /// The path that replaces all others.
    pub rewrite: Option<String>,
    /// Worker threads.
    pub workers: u32,
    /// Warm-up.
    pub warmup: Duration,
    /// Maximum warm-up.
    pub warmup_most: Duration,
    /// Sustained phase of a load without its own duration.
    pub duration: Duration,
    /// Time-out of a request.
    pub timeout: Duration,
    /// Seed.
    pub seed: u64,
}

/// The setting of a load in a cell; `direct` is whether it has no gateway.
pub(crate) fn setting(
    scenario: &Scenario,
    connect: &[SocketAddr],
    requests: Vec<RequestSpec>,
    direct: bool,
    seed: u64,
) -> Setting {
    let hosts = scenario.topology.hosts();
    Setting {
        connect: connect.first().map(SocketAddr::to_string).unwrap_or_default(),
        host: hosts[0].clone(),
        authority: hosts[0].clone(),
        resolve: Vec::new(),
        addresses: connect.to_vec(),
        requests,
        base: Request { path: "/".into(), ..Request::default() },
        domains: if hosts.len() > 1 { hosts } else { Vec::new() },
        tokens: Vec::new(),
        rewrite: scenario.topology.rewrite.clone().filter(|_| direct),
        workers: scenario.workers,
        warmup: scenario.warmup.0,
        warmup_most: scenario.warmup.0.mul_f64(scenario.thresholds.warmup_growth),
        duration: scenario.duration.0,
        timeout: scenario.timeout.0,
        seed,
    }
}

/// All requests, each host with each path, with the weights of `popularity`. A direct cell sends the requests that the
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
