//! Tests whether this host allows cgroups and network namespaces, and measures host noise, for `weir doctor` and the
//! manifest.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_results::{HostProcess, HostShare};

use crate::cleanup::ledger::Entry;
use crate::cleanup::{self, ProcessId};
use crate::clock::mono_ns;
use crate::limits::GroupParent;
use crate::namespace::{self, Label};
use crate::{CgroupVersion, Limits, Namespace, Rig, Sampler};

/// Limits for the cgroup of a trial, small enough for any host.
const TRIAL: Limits = Limits { cpus: Some(0.5), memory_bytes: Some(64 << 20) };
/// The name prefix of cgroups that trials outside a run create; the process ID follows.
const TRIAL_PREFIX: &str = "weir-trial-";

/// The prefix of network interface names that trials create.
const TRIAL_INTERFACE: &str = "wtrial-";
/// Timeout to connect from one trial namespace to the other.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(5);

impl Rig {
    /// Creates a cgroup with limits and removes it again. The ledger lists the cgroup, so the guard removes it after a
    /// crash.
    ///
    /// # Errors
    /// A message with the reason why this host or user cannot create it.
    pub fn try_limits(&self) -> Result<CgroupVersion, String> {
        let parent = self.launcher.groups.as_ref().map_err(String::clone)?;
        let entry = Entry::Groups(parent.directories(Some("trial")));
        self.launcher.ledger.add(&entry).map_err(|error| error.to_string())?;
        try_in(parent, "trial")
    }
}

/// Creates a cgroup with limits and removes it again, like [`Rig::try_limits`], but without a rig.
///
/// # Errors
/// A message with the reason why this host or user cannot create it.
pub fn try_limits() -> Result<CgroupVersion, String> {
    static TRIALS: AtomicU32 = AtomicU32::new(0);
    let count = TRIALS.fetch_add(1, Ordering::Relaxed);
    try_below(&format!("{TRIAL_PREFIX}{}-{count}", std::process::id()))
}

fn try_below(name: &str) -> Result<CgroupVersion, String> {
    let parent = GroupParent::find(name)?;
    let directories = parent.directories(None);
    directories.iter().filter_map(|directory| directory.parent()).for_each(remove_stale_trials);
    let tried = parent.make().and_then(|()| try_in(&parent, "part"));
    cleanup::remove_groups(&directories);
    tried
}

fn try_in(parent: &GroupParent, name: &str) -> Result<CgroupVersion, String> {
    let group = parent.create(name, &TRIAL)?;
    group.remove();
    Ok(parent.version)
}

/// Removes cgroups from `folder` that trials left there because their process was killed.
fn remove_stale_trials(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(TRIAL_PREFIX));
        let pid = rest.and_then(|rest| rest.split('-').next()).and_then(|pid| pid.parse().ok());
        let Some(pid) = pid else { continue };
        if !ProcessId::of(pid).is_some_and(|process| process.is_alive()) {
            let _ = fs::remove_dir(entry.path().join("part"));
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Creates two network namespaces, links them, and opens a TCP connection over the link.
///
/// # Errors
/// A message with the reason why this host or user cannot do this.
pub fn try_namespaces() -> Result<(), String> {
    let tried = || {
        let (one, other) = (Namespace::make(TRIAL_INTERFACE)?, Namespace::make(TRIAL_INTERFACE)?);
        let alias = format!("weir trial {}", std::process::id());
        let [_, address] = one.link(&other, 0, Label { prefix: TRIAL_INTERFACE, alias: &alias })?;
        let listener = other.within(|| TcpListener::bind((address, 0)))??;
        namespace::connect(Some(&one), listener.local_addr()?, TRIAL_TIMEOUT)
    };
    tried().map(drop).map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => "this user is not allowed to create network namespaces".to_owned(),
        _ => error.to_string(),
    })
}

/// How long the sampler needs at most to read every process of the host once.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// Measures host noise for the time `span`, in which weir does nothing. Returns the shares of CPU time, and the other
/// processes that used CPU time, the busiest first. `None` if the host's CPU times cannot be read.
pub fn disturbance(span: Duration) -> Option<(HostShare, Vec<HostProcess>)> {
    let sampler = Sampler::start(&[]);
    // Wait for the sampler's first snapshot of all processes, which must be taken before the time `span` starts.
    std::thread::sleep(FIRST_LOOK);
    let from_ns = mono_ns();
    std::thread::sleep(span);
    let to_ns = mono_ns();
    let samples = sampler.finish();
    Some((samples.host(from_ns, to_ns)?, samples.neighbours(from_ns, to_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_leaves_no_group() {
        // Neither a successful nor a failed trial leaves a cgroup.
        let name = format!("weir-trial-{}-alone", std::process::id());
        let tried = try_below(&name);
        if let Ok(parent) = GroupParent::find(&name) {
            assert!(parent.directories(None).iter().all(|directory| !directory.exists()), "{tried:?}");
        }
    }

    #[test]
    fn the_next_trial_removes_groups_of_a_killed_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let of = |pid: u32| folder.path().join(format!("{TRIAL_PREFIX}{pid}/part"));
        fs::create_dir_all(of(dead.id())).unwrap();
        fs::create_dir_all(of(std::process::id())).unwrap();
        fs::create_dir(folder.path().join("weir-trial-of-somebody-else")).unwrap();
        remove_stale_trials(folder.path());
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [&*format!("{TRIAL_PREFIX}{}", std::process::id()), "weir-trial-of-somebody-else"]);
    }

    #[test]
    fn only_root_can_create_network_namespaces() {
        match rustix::process::geteuid().is_root() {
            true => assert_eq!(try_namespaces(), Ok(())),
            false => assert!(try_namespaces().unwrap_err().contains("is not allowed"), "another user"),
        }
    }

    #[test]
    fn a_short_noise_measurement_returns_shares() {
        let (share, _) = disturbance(Duration::from_millis(50)).unwrap();
        assert!(
            [share.steal, share.others, share.idle].iter().all(|share| (0.0..=1.0).contains(share)),
            "{share:?}"
        );
    }
}
