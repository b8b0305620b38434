//! The DNS resolver and its sources: the configured servers, and the system files.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, TokioResolver};

/// Paths of the system files.
#[derive(Clone, Debug)]
pub(crate) struct SystemFiles {
    pub(crate) resolv_conf: PathBuf,
    pub(crate) hosts: PathBuf,
}

/// The inputs of a resolver, at the time they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    asked: Asked,
    /// Empty if the file does not exist.
    hosts: Vec<u8>,
}

/// The servers to query.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Servers(Vec<SocketAddr>),
    /// The servers that the system's `resolv.conf` names. The value is the content of that file.
    System(Vec<u8>),
}

impl Default for SystemFiles {
    fn default() -> SystemFiles {
        SystemFiles { resolv_conf: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into() }
    }
}

impl SystemFiles {
    /// Reads the inputs of a resolver that queries `servers`, or the system's servers if `servers` is empty.
    ///
    /// # Errors
    /// If `resolv.conf` is needed and can't be read.
    pub(crate) fn read(&self, servers: &[SocketAddr]) -> io::Result<Sources> {
        let asked = match servers {
            [] => Asked::System(std::fs::read(&self.resolv_conf).map_err(|error| self.named(&error))?),
            servers => Asked::Servers(servers.to_vec()),
        };
        Ok(Sources { asked, hosts: std::fs::read(&self.hosts).unwrap_or_default() })
    }

    /// Creates a resolver from these inputs.
    ///
    /// # Errors
    /// If `resolv.conf` names no server or is malformed.
    pub(crate) fn resolver(&self, sources: &Sources) -> io::Result<TokioResolver> {
        let (config, mut options) = match &sources.asked {
            Asked::Servers(servers) => (of_servers(servers), ResolverOpts::default()),
            Asked::System(text) => parse_resolv_conf(text).map_err(|error| self.named(&error))?,
        };
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // The lookup tasks handle the lifetime of answers themselves.
        options.cache_size = 0;
        // The gateway reads the hosts file itself, to detect changes.
        options.use_hosts_file = ResolveHosts::Never;
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let mut resolver =
            builder.with_options(options).build().map_err(|error: NetError| self.named(&error))?;
        let mut hosts = Hosts::default();
        // If a line is not valid text, the lines before it still take effect.
        let _ = hosts.read_hosts_conf(&*sources.hosts);
        resolver.set_hosts(Arc::new(hosts));
        Ok(resolver)
    }

    fn named(&self, error: &dyn std::fmt::Display) -> io::Error {
        io::Error::other(format!("{}: {error}", self.resolv_conf.display()))
    }
}

fn of_servers(servers: &[SocketAddr]) -> ResolverConfig {
    let servers = servers.iter().map(|server| {
        let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
        connections.iter_mut().for_each(|connection| connection.port = server.port());
        NameServerConfig::new(server.ip(), true, connections)
    });
    ResolverConfig::from_parts(None, Vec::new(), servers.collect())
}
