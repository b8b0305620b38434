//! Trials of what this host allows, and of its noise, for `weir doctor` and the manifest.

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

/// Limits for a trial; any host can enforce them.
const TRIAL: Limits = Limits { cpus: Some(0.5), memory_bytes: Some(64 << 20) };
/// The prefix of groups of trials outside a run, followed by the process ID.
const TRIAL_PREFIX: &str = "weir-trial-";

/// The interface prefix of trial links.
const TRIAL_INTERFACE: &str = "wtrial-";
/// Timeout of a connection over a trial link.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(5);

impl Rig {
    /// Creates a control group with limits and removes it again. It is in the ledger, so it does not outlive a crash.
    ///
    /// # Errors
    /// Why this host or user cannot, in words.
    pub fn try_limits(&self) -> Result<CgroupVersion, String> {
        let parent = self.launcher.groups.as_ref().map_err(String::clone)?;
        let entry = Entry::Groups(parent.directories(Some("trial")));
        self.launcher.ledger.add(&entry).map_err(|error| error.to_string())?;
        try_in(parent, "trial")
    }
}

/// [`Rig::try_limits`] outside a run.
///
/// # Errors
/// Why this host or user cannot, in words.
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

/// Removes groups of killed trials from this folder.
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

/// Creates two network namespaces with a link, and connects over it.
///
/// # Errors
/// Why this host or user cannot, in words.
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

/// Time for a snapshot of every process of the host.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// Host noise over `span`, while weir does nothing, and the processes that used CPU time, the busiest first.
pub fn disturbance(span: Duration) -> Option<(HostShare, Vec<HostProcess>)> {
    let sampler = Sampler::start(&[]);
    // The sampler's first snapshot of all processes comes before the span.
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
        // Whether or not this user can create groups, none is left afterwards.
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
            false => assert!(try_namespaces().unwrap_err().contains("may not"), "another user"),
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
