//! Names of endpoints, looked up on a thread of its own: a worker only sees that there are other addresses.
//!
//! Each name has a task, which asks again when the answer has run out. Addresses that have changed make a new version;
//! a worker that sees one at its next tick makes its pools anew, in which what stays keeps its connections.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, spawn_local};
use weir_config::{BackendEntry, Pages, Table};

use crate::follower::Follower;
use crate::health::HealthChecks;
use crate::program_log::seldom;
use crate::worker::Shared;

/// How long an answer holds at least, and at most, whatever its time to live.
const ANSWER_LEAST: Duration = Duration::from_secs(1);
const ANSWER_MOST: Duration = Duration::from_secs(3600);

/// How long after a lookup that failed the next one comes.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// What is known of names. Workers read it only when it has changed.
#[derive(Debug, Default)]
pub(crate) struct Names {
    addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
    version: AtomicU64,
    lookups: AtomicU64,
    failures: AtomicU64,
}

/// The lookups of a gateway. They end with it.
#[derive(Debug, Default)]
pub(crate) struct NameLookups(Follower);

/// What a task needs.
struct Subject {
    shared: Arc<Shared>,
    checks: Arc<HealthChecks>,
}

impl Names {
    /// The addresses of `host`, in order; none before the first answer.
    pub(crate) fn addresses(&self, host: &str) -> Vec<IpAddr> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.get(host).cloned().unwrap_or_default()
    }

    /// Grows with every change.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Lookups that were made, and of these those that failed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.lookups.load(Ordering::Relaxed), self.failures.load(Ordering::Relaxed))
    }

    /// Takes an answer in; whether it says something new.
    fn put(&self, host: &str, mut found: Vec<IpAddr>) -> bool {
        // Servers shuffle their answers, which is no change.
        found.sort_unstable();
        found.dedup();
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.get(host) == Some(&found) {
            return false;
        }
        addresses.insert(host.to_owned(), found);
        self.version.fetch_add(1, Ordering::Release);
        true
    }

    fn forget(&self, host: &str) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).remove(host);
    }
}

impl NameLookups {
    /// Makes ready for what `table` names.
    ///
    /// # Errors
    /// When the thread can't start.
    pub(crate) fn prepare(
        &self,
        table: &Table,
        shared: &Arc<Shared>,
        checks: &Arc<HealthChecks>,
    ) -> io::Result<()> {
        if !table.has_names {
            return Ok(());
        }
        let subject = Subject { shared: Arc::clone(shared), checks: Arc::clone(checks) };
        self.0.start("weir-names", move |looks| keep(looks, subject))
    }

    /// Looks up what the table in force names from here on.
    pub(crate) fn look(&self) {
        self.0.look();
    }
}

async fn keep(mut looks: UnboundedReceiver<()>, subject: Subject) {
    let subject = Rc::new(subject);
    let mut tasks: HashMap<String, AbortHandle> = HashMap::new();
    let mut asked: Option<(Vec<SocketAddr>, Rc<TokioResolver>)> = None;
    let mut seen: Option<Pages<BackendEntry>> = None;
    while looks.recv().await.is_some() {
        let table = subject.shared.table.load_full();
        let servers = &table.resolver.servers;
        if asked.as_ref().is_none_or(|(before, _)| before != servers) {
            tasks.drain().for_each(|(_, task)| task.abort());
            seen = None;
            asked = resolver(servers).ok().map(|resolver| (servers.clone(), Rc::new(resolver)));
        }
        let Some((_, resolver)) = &asked else { continue };
        // Most changes are of routes.
        if !seen.as_ref().is_some_and(|seen| seen.shares_all(table.backends())) {
            tasks = renew(tasks, &table, resolver, &subject);
            seen = Some(table.backends().clone());
        }
    }
}

/// The tasks that `table` wants; `former` lends those that are there.
fn renew(
    mut former: HashMap<String, AbortHandle>,
    table: &Table,
    resolver: &Rc<TokioResolver>,
    subject: &Rc<Subject>,
) -> HashMap<String, AbortHandle> {
    let mut wanted = HashMap::new();
    for host in table.backends().iter().flat_map(|entry| entry.backend.names()) {
        if !wanted.contains_key(host) {
            let task = former.remove(host).unwrap_or_else(|| {
                let task = ask_always(host.to_owned(), Rc::clone(resolver), Rc::clone(subject));
                spawn_local(task).abort_handle()
            });
            wanted.insert(host.to_owned(), task);
        }
    }
    for (host, task) in former {
        task.abort();
        subject.shared.backends.names.forget(&host);
    }
    wanted
}

/// One that asks these servers, or those of the system.
fn resolver(servers: &[SocketAddr]) -> Result<TokioResolver, NetError> {
    let mut builder = match servers {
        [] => TokioResolver::builder_tokio()?,
        servers => {
            let servers = servers.iter().map(|server| {
                let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
                connections.iter_mut().for_each(|connection| connection.port = server.port());
                NameServerConfig::new(server.ip(), true, connections)
            });
            let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    let options = builder.options_mut();
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // The tasks themselves know how long an answer holds.
    options.cache_size = 0;
    builder.build()
}

async fn ask_always(host: String, resolver: Rc<TokioResolver>, subject: Rc<Subject>) {
    let names = &subject.shared.backends.names;
    loop {
        names.lookups.fetch_add(1, Ordering::Relaxed);
        let (found, pause) = match resolver.lookup_ip(host.as_str()).await {
            Ok(found) => {
                let left = found.valid_until().saturating_duration_since(Instant::now());
                (Some(found.iter().collect()), left.clamp(ANSWER_LEAST, ANSWER_MOST))
            }
            // Whoever knows says that there is none.
            Err(error) if error.is_no_records_found() => (Some(Vec::new()), FAILURE_PAUSE),
            Err(error) => {
                seldom!(log::Level::Warn, "the name `{host}` can't be looked up: {error}");
                names.failures.fetch_add(1, Ordering::Relaxed);
                (None, FAILURE_PAUSE)
            }
        };
        if found.is_some_and(|found| names.put(&host, found)) {
            subject.checks.look();
        }
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_makes_a_version() {
        let names = Names::default();
        let ip = |last| IpAddr::from([192, 0, 2, last]);
        assert!(names.put("a", vec![ip(2), ip(1), ip(2)]));
        assert!(!names.put("a", vec![ip(1), ip(2)]), "the order does not matter");
        assert_eq!((names.addresses("a"), names.version()), (vec![ip(1), ip(2)], 1));
        assert!(names.put("a", Vec::new()));
        names.forget("a");
        assert_eq!((names.addresses("a"), names.version()), (Vec::new(), 2));
    }
}
