//! DNS lookups of endpoint names, on a separate thread. Workers only see that the addresses have changed.
//!
//! Each name has a task, which repeats the lookup whenever the answer has expired. Each change of addresses increases a
//! version number, which workers compare at each tick. If it has changed, a worker builds new pools; unchanged
//! endpoints keep their connections. After each new table, the thread reads the system's resolver files again. If these
//! files or the configured servers have changed, all names are looked up again.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, spawn_local};
use weir_config::{BackendEntry, Pages, Table};

use crate::follower::Follower;
use crate::health::HealthChecks;
use crate::program_log::seldom;
use crate::resolver::{Sources, SystemFiles};
use crate::worker::Shared;

/// An answer is valid for its time to live (TTL), but at least for this time.
const ANSWER_LEAST: Duration = Duration::from_secs(1);
/// An answer is valid for at most this time, even if its TTL is longer.
const ANSWER_MOST: Duration = Duration::from_secs(3600);

/// The pause after a failed lookup.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// The known addresses of names. Workers read them only after a change.
#[derive(Debug, Default)]
pub(crate) struct Names {
    addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
    version: AtomicU64,
    lookups: AtomicU64,
    failures: AtomicU64,
}

/// The lookups of a gateway. Dropping this stops them.
#[derive(Debug, Default)]
pub(crate) struct NameLookups {
    follower: Follower,
    files: SystemFiles,
}

/// The parts of the gateway that lookup tasks use.
struct Subject {
    shared: Arc<Shared>,
    checks: Arc<HealthChecks>,
    files: SystemFiles,
}

/// The lookup tasks and their resolver.
#[derive(Default)]
struct Tasks {
    of_names: HashMap<String, AbortHandle>,
    /// `None` before the first resolver exists.
    resolver: Option<(Sources, Rc<TokioResolver>)>,
    /// The backends whose host names the tasks look up. `None` until tasks exist for the current resolver.
    seen: Option<Pages<BackendEntry>>,
}

impl Names {
    /// The addresses of `host`, sorted; empty before the first answer.
    pub(crate) fn addresses(&self, host: &str) -> Vec<IpAddr> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.get(host).cloned().unwrap_or_default()
    }

    /// The version of the addresses. It grows with every change of an address.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The number of lookups, and how many of them failed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.lookups.load(Ordering::Relaxed), self.failures.load(Ordering::Relaxed))
    }

    /// Stores the addresses of `host`. Returns whether they differ from the previous ones.
    fn put(&self, host: &str, mut found: Vec<IpAddr>) -> bool {
        // Servers shuffle their answers. A new order is not a change.
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

    fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    fn forget(&self, host: &str) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).remove(host);
    }
}

impl NameLookups {
    /// Starts the thread if `table` has endpoints with names.
    ///
    /// # Errors
    /// If the thread can't start.
    pub(crate) fn prepare(
        &self,
        table: &Table,
        shared: &Arc<Shared>,
        checks: &Arc<HealthChecks>,
    ) -> io::Result<()> {
        if !table.has_names {
            return Ok(());
        }
        let files = self.files.clone();
        let subject = Subject { shared: Arc::clone(shared), checks: Arc::clone(checks), files };
        self.follower.start("weir-names", move |looks| keep(looks, subject))
    }

    /// Updates the lookups to the active configuration.
    pub(crate) fn look(&self) {
        self.follower.look();
    }
}

async fn keep(mut looks: UnboundedReceiver<()>, subject: Subject) {
    let subject = Rc::new(subject);
    let mut tasks = Tasks::default();
    let mut is_failing = false;
    while wait(&mut looks, is_failing).await {
        let table = subject.shared.table.load_full();
        let outcome = if table.has_names { tasks.renew_resolver(&table, &subject) } else { Ok(()) };
        is_failing = outcome.is_err();
        if let Err(error) = outcome {
            log::error!("cannot resolve endpoint names: {error}");
            let names = &subject.shared.backends.names;
            names.lookups.fetch_add(1, Ordering::Relaxed);
            names.count_failure();
        }
        tasks.follow(&table, &subject);
    }
}

/// Waits for a wake-up, but no longer than [`FAILURE_PAUSE`] after a failure. Returns false if the gateway has ended.
async fn wait(looks: &mut UnboundedReceiver<()>, is_failing: bool) -> bool {
    match is_failing {
        true => tokio::time::timeout(FAILURE_PAUSE, looks.recv()).await.unwrap_or(Some(())).is_some(),
        false => looks.recv().await.is_some(),
    }
}

impl Tasks {
    /// Creates a resolver if the files or servers have changed, or if there is none yet. Then all names are looked up
    /// again.
    ///
    /// # Errors
    /// If the resolver cannot be created. The former resolver then stays active.
    fn renew_resolver(&mut self, table: &Table, subject: &Subject) -> io::Result<()> {
        let sources = subject.files.read(&table.resolver.servers)?;
        if self.resolver.as_ref().is_some_and(|(former, _)| *former == sources) {
            return Ok(());
        }
        let resolver = Rc::new(subject.files.resolver(&sources)?);
        self.of_names.values().for_each(AbortHandle::abort);
        self.seen = None;
        self.resolver = Some((sources, resolver));
        Ok(())
    }

    /// Starts and stops tasks, so that they match the names of `table`.
    fn follow(&mut self, table: &Table, subject: &Rc<Subject>) {
        let Some((_, resolver)) = &self.resolver else { return };
        // Most changes affect routes only, so the names are the same.
        if self.seen.as_ref().is_some_and(|seen| seen.shares_all(table.backends())) {
            return;
        }
        let goes_on = self.seen.is_some();
        let mut former = std::mem::take(&mut self.of_names);
        for host in table.backends().iter().flat_map(|entry| entry.backend.names()) {
            if !self.of_names.contains_key(host) {
                let task = former.remove(host).filter(|_| goes_on).unwrap_or_else(|| {
                    let task = keep_resolving(host.to_owned(), Rc::clone(resolver), Rc::clone(subject));
                    spawn_local(task).abort_handle()
                });
                self.of_names.insert(host.to_owned(), task);
            }
        }
        for (host, task) in former {
            task.abort();
            subject.shared.backends.names.forget(&host);
        }
        self.seen = Some(table.backends().clone());
    }
}

async fn keep_resolving(host: String, resolver: Rc<TokioResolver>, subject: Rc<Subject>) {
    let names = &subject.shared.backends.names;
    loop {
        names.lookups.fetch_add(1, Ordering::Relaxed);
        let (found, pause) = match resolver.lookup_ip(host.as_str()).await {
            Ok(found) => {
                let left = found.valid_until().saturating_duration_since(Instant::now());
                (Some(found.iter().collect()), left.clamp(ANSWER_LEAST, ANSWER_MOST))
            }
            // The server has confirmed that there is no address.
            Err(error) if error.is_no_records_found() => (Some(Vec::new()), FAILURE_PAUSE),
            Err(error) => {
                seldom!(
                    log::Level::Warn,
                    "cannot resolve endpoint `{host}`: {error}; its last known addresses stay active"
                );
                names.count_failure();
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
    use weir_config::{
        Backend, Batch, Change, Endpoint, EndpointAddress, Key, Listener, Policy, Resource, State,
    };

    use super::*;

    /// Lookups of one name, with system files that this test writes.
    struct Looking {
        shared: Arc<Shared>,
        lookups: NameLookups,
        dir: tempfile::TempDir,
    }

    impl Looking {
        fn start() -> Looking {
            let dir = tempfile::tempdir().unwrap();
            let files =
                SystemFiles { resolv_conf: dir.path().join("resolv.conf"), hosts: dir.path().join("hosts") };
            let address = EndpointAddress::Name { host: "svc.test".to_owned(), port: 80 };
            let endpoints = vec![Endpoint { address, weight: 1 }];
            let backend = Backend { endpoints, ..Backend::default() };
            let changes = vec![
                Change::Put(
                    Key::Listener("l".to_owned()),
                    Resource::Listener(Listener::plain(([127, 0, 0, 1], 1).into())),
                ),
                Change::Put(Key::Backend("b".to_owned()), Resource::Backend(Arc::new(backend))),
            ];
            let batch = Batch { version: 1, policy: Policy::AllOrNothing, changes };
            let table = State::default().apply(batch).table.unwrap();
            let shared = Arc::new(Shared::new(Arc::clone(&table)));
            let lookups = NameLookups { files, ..NameLookups::default() };
            lookups.prepare(&table, &shared, &Arc::default()).unwrap();
            Looking { shared, lookups, dir }
        }

        fn write(&self, file: &str, text: &str) {
            std::fs::write(self.dir.path().join(file), text).unwrap();
        }

        fn names(&self) -> &Names {
            &self.shared.backends.names
        }

        fn wait_for(&self, what: &str, condition: impl Fn(&Names) -> bool) {
            let is_so = || {
                std::thread::sleep(Duration::from_millis(10));
                condition(self.names())
            };
            assert!((0..2000).any(|_| is_so()), "timed out waiting for {what}: {:?}", self.names());
        }
    }

    /// A hosts file with an IPv4 and an IPv6 address. If one of them were missing, the resolver would query a DNS
    /// server for it.
    const HOSTS: &str = "127.0.0.1 svc.test\n::1 svc.test\n";

    #[test]
    fn a_resolver_that_cannot_be_created_counts_as_failure_and_is_retried() {
        let looking = Looking::start();
        looking.write("hosts", HOSTS);
        looking.lookups.look();
        looking.wait_for("no file", |names| names.counts().1 >= 1);
        looking.write("resolv.conf", "# nobody\n");
        looking.lookups.look();
        looking.wait_for("no server", |names| names.counts().1 >= 2);
        looking.write("resolv.conf", "nameserver 127.0.0.1\n");
        looking.wait_for("the answer", |names| names.addresses("svc.test").len() == 2);
    }

    #[test]
    fn a_reload_reads_the_system_files_again() {
        let looking = Looking::start();
        looking.write("resolv.conf", "nameserver 127.0.0.1\n");
        looking.write("hosts", HOSTS);
        looking.lookups.look();
        looking.wait_for("the answer", |names| names.version() == 1);
        looking.lookups.look();
        looking.write("hosts", &HOSTS.replace("127.0.0.1", "127.0.0.2"));
        looking.lookups.look();
        let second = IpAddr::from([127, 0, 0, 2]);
        looking.wait_for("the change", |names| names.addresses("svc.test").contains(&second));
        assert_eq!(looking.names().counts(), (2, 0), "unchanged files cause no lookup");
        // The resolver created from the previous file stays active.
        looking.write("resolv.conf", "");
        looking.lookups.look();
        looking.wait_for("the failure", |names| names.counts().1 >= 1);
        assert!(looking.names().addresses("svc.test").contains(&second));
    }

    #[test]
    fn only_changed_addresses_make_a_version() {
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
