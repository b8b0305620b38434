//! The resolver of names, and what it is made of: the servers of the configuration, and the system's files.

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

/// Where the system says whom to ask, and which names it knows itself.
#[derive(Clone, Debug)]
pub(crate) struct SystemFiles {
    pub(crate) resolv_conf: PathBuf,
    pub(crate) hosts: PathBuf,
}

/// All that a resolver goes by, as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    asked: Asked,
    /// Empty where there is no such file.
    hosts: Vec<u8>,
}

/// Who is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Servers(Vec<SocketAddr>),
    /// Those that the system's file names.
    System(Vec<u8>),
}

impl Default for SystemFiles {
    fn default() -> SystemFiles {
        SystemFiles { resolv_conf: "/etc/resolv.conf".into(), hosts: "/etc/hosts".into() }
    }
}

impl SystemFiles {
    /// What a resolver that asks `servers` goes by, or without any the system's.
    ///
    /// # Errors
    /// When the file that names the system's servers can't be read.
    pub(crate) fn read(&self, servers: &[SocketAddr]) -> io::Result<Sources> {
        let asked = match servers {
            [] => Asked::System(std::fs::read(&self.resolv_conf).map_err(|error| self.named(&error))?),
            servers => Asked::Servers(servers.to_vec()),
        };
        Ok(Sources { asked, hosts: std::fs::read(&self.hosts).unwrap_or_default() })
    }

    /// The resolver that these make.
    ///
    /// # Errors
    /// When the system's file names no server, or is not right.
    pub(crate) fn resolver(&self, sources: &Sources) -> io::Result<TokioResolver> {
        let (config, mut options) = match &sources.asked {
            Asked::Servers(servers) => (of_servers(servers), ResolverOpts::default()),
            Asked::System(text) => parse_resolv_conf(text).map_err(|error| self.named(&error))?,
        };
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // The tasks themselves know how long an answer holds.
        options.cache_size = 0;
        // It is read here, so that a change of it is seen.
        options.use_hosts_file = ResolveHosts::Never;
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let mut resolver =
            builder.with_options(options).build().map_err(|error: NetError| self.named(&error))?;
        let mut hosts = Hosts::default();
        // Lines before one that is no text count.
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
