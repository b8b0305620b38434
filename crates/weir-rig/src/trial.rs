//! Short looks at what this host allows and how quiet it is, for `weir doctor` and the manifest.

use std::time::Duration;

use weir_results::HostShare;

use crate::limits::GroupParent;
use crate::sample::mono_ns;
use crate::{CgroupVersion, Limits, Sampler, cleanup};

/// Limits that any host can hold.
const TRIAL: Limits = Limits { cpus: Some(0.5), memory_bytes: Some(64 << 20) };

/// Makes a control group with limits and removes it again.
///
/// # Errors
/// Why this host or user cannot, in words.
pub fn try_limits() -> Result<CgroupVersion, String> {
    let parent = GroupParent::find(&format!("weir-trial-{}", std::process::id()))?;
    let tried = parent.create("part", &TRIAL).map(|group| {
        group.remove();
    });
    cleanup::remove_groups(&parent.directories(None));
    tried.map(|()| parent.version)
}

/// Watches the host for `span`: what others use of it while weir does nothing.
pub fn disturbance(span: Duration) -> Option<HostShare> {
    let sampler = Sampler::start(&[]);
    let from_ns = mono_ns();
    std::thread::sleep(span);
    let to_ns = mono_ns();
    sampler.finish().host(from_ns, to_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_leaves_no_group() {
        // Whether this user may make groups or not, none is there afterwards.
        let tried = try_limits();
        let name = format!("weir-trial-{}", std::process::id());
        if let Ok(parent) = GroupParent::find(&name) {
            assert!(parent.directories(None).iter().all(|directory| !directory.exists()), "{tried:?}");
        }
    }

    #[test]
    fn a_short_look_at_the_host_gives_shares() {
        let share = disturbance(Duration::from_millis(50)).unwrap();
        assert!(
            [share.steal, share.others, share.idle].iter().all(|share| (0.0..=1.0).contains(share)),
            "{share:?}"
        );
    }
}
