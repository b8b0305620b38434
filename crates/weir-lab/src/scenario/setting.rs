//! What a load needs beyond its own fields: addresses, requests, phases.

use std::net::SocketAddr;
use std::time::Duration;

use weir_engine::{RequestSpec, ResolveSpec};

use super::{Popularity, Request, Scenario};

/// What a load is put to, beyond what it says itself.
#[derive(Clone, Debug)]
pub struct Setting {
    /// `host:port` to connect to.
    pub connect: String,
    /// The name of the host, which a certificate must carry.
    pub host: String,
    /// The value of Host.
    pub authority: String,
    /// Addresses in place of what names resolve to.
    pub resolve: Vec<ResolveSpec>,
    /// Where to connect in place of all that; connections take them in turn.
    pub addresses: Vec<SocketAddr>,
    /// What is sent where the load has no mix.
    pub requests: Vec<RequestSpec>,
    /// What requests of a file don't say themselves.
    pub base: Request,
    /// Names of the topology's domains, where there are several.
    pub domains: Vec<String>,
    /// Bearer tokens, where the load has no file of its own.
    pub tokens: Vec<String>,
    /// The path that is asked for in place of every other.
    pub rewrite: Option<String>,
    /// Worker threads.
    pub workers: u32,
    /// Warm-up.
    pub warmup: Duration,
    /// To what the warm-up may grow.
    pub warmup_most: Duration,
    /// Sustained phase, where the load has none of its own.
    pub duration: Duration,
    /// Time-out of a request.
    pub timeout: Duration,
    /// Seed.
    pub seed: u64,
}

/// What a load is put to: each path of the topology at each domain, or its own mix there.
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

/// Every request that may be sent: each host with each path, as often as their popularity has it. A direct cell asks for
/// what the gateway would.
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
