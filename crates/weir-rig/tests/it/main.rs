//! The rig with real processes: limits, samples, launch errors, cleanup after a killed lab, and the real gateways of
//! `make peers`.

#![allow(clippy::unwrap_used)]

mod changes;
mod cleaning;
mod gateways;
mod launching;
mod limiting;
mod namespaces;
mod origin;
mod rendered;
mod rootless;
mod sampling;
mod secured;
mod upstreams;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;
use weir_results::Role;
use weir_rig::{Binary, Limits, ProcessSpec, Ready, Rig, RigOptions};

/// The program of `tests/probe`.
const PROBE: &str = env!("CARGO_BIN_EXE_weir-rig-probe");
/// Timeout for expected events; long, because only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A rig with its own folders, so that several tests can have a rig at the same time.
struct Bench {
    rig: Option<Rig>,
    folder: TempDir,
}

impl Bench {
    fn new(run_id: &str) -> Self {
        Self::with(run_id, true)
    }

    fn with(run_id: &str, cgroups: bool) -> Self {
        let folder = TempDir::new().unwrap();
        let rig = Rig::open_with(&options(run_id, folder.path(), cgroups)).unwrap();
        Self { rig: Some(rig), folder }
    }

    fn rig(&self) -> &Rig {
        self.rig.as_ref().unwrap()
    }

    /// Closes the rig; only the lock may remain in its folder.
    fn close(mut self) {
        self.rig.take().unwrap().close().unwrap();
        let left: Vec<_> =
            self.folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["host.lock"]);
    }

    /// The specification of a process that runs the probe with `arguments`.
    fn probe(&self, name: &str, arguments: &[&str]) -> ProcessSpec {
        let command = std::iter::once(PROBE).chain(arguments.iter().copied()).map(str::to_owned).collect();
        ProcessSpec {
            name: name.into(),
            role: Role::Data,
            binary: Binary {
                path: PROBE.into(),
                version: "1".into(),
                sha256: "0".into(),
                ..Binary::default()
            },
            config_sha256: None,
            command,
            env: Vec::new(),
            dir: self.rig().work_dir().to_owned(),
            log: self.rig().work_dir().join(format!("{name}.log")),
            input: None,
            limits: Limits::default(),
            is_urgent: false,
            cpus: None,
            ready: Ready::None,
            ready_timeout: PATIENCE,
            listens: Vec::new(),
            namespace: None,
        }
    }
}

fn options(run_id: &str, folder: &Path, cgroups: bool) -> RigOptions {
    RigOptions {
        run_id: run_id.into(),
        state_dir: folder.to_owned(),
        temp_dir: folder.to_owned(),
        guard: vec![PROBE.into(), "guard".into()],
        cgroups,
        database: Some(folder.join("weir.db")),
        host_name: None,
    }
}

/// A free address. Each call has its own IP address, so that no other test can get the port before it is used.
fn free_address() -> SocketAddr {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let [high, low] = CALLS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    TcpListener::bind((Ipv4Addr::new(127, 1, high, low), 0)).unwrap().local_addr().unwrap()
}

/// Waits until `done` returns true; panics with `what` after [`PATIENCE`].
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn mono_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
