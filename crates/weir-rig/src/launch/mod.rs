//! Launches processes: limited from their first instruction, monitored until ready, and killed with the run.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::RigError;
use crate::cleanup::ledger::{Entry, Ledger};
use crate::limits::GroupParent;

mod affinity;
mod container;
mod logs;
mod ports;
mod process;
mod readiness;
mod running;
pub(crate) mod spawn;
mod start;
mod wrong_address;

use affinity::Pins;
use logs::Logs;
pub(crate) use process::reach;
pub use process::{ProcessSpec, Ready};
pub use running::Running;
use spawn::Spawner;
pub use spawn::in_own_session;

/// The state of a run that is needed to launch a part.
#[derive(Debug)]
pub(crate) struct Launcher {
    spawner: Spawner,
    pub(crate) ledger: Ledger,
    /// The cgroup of the run, or the reason why it has none.
    pub(crate) groups: Result<GroupParent, String>,
    logs: Logs,
    /// The mark of the run. All processes of the run have the environment variable `WEIR_RUN_PART`, whose value starts
    /// with this mark.
    mark: String,
    /// The work folder of the run, which containers share.
    work_dir: PathBuf,
    /// Number of parts launched so far.
    launched: AtomicU32,
    /// The CPUs of parts that are pinned because no cgroup limits them.
    pins: Pins,
    /// Set when the run is cancelled.
    pub(crate) stop: Option<Arc<AtomicBool>>,
}

impl Launcher {
    /// Starts the threads that spawn processes and limit logs. `mark` identifies the run in the environment of its
    /// processes. `work_dir` is the work folder of the run.
    ///
    /// # Errors
    /// [`RigError::Launch`] if a thread cannot be started.
    pub(crate) fn start(
        ledger: Ledger,
        groups: Result<GroupParent, String>,
        mark: String,
        work_dir: PathBuf,
    ) -> Result<Self, RigError> {
        let failed = |part: &str, error: std::io::Error| {
            let message = error.to_string();
            RigError::Launch { part: part.into(), message }
        };
        Ok(Self {
            spawner: Spawner::start().map_err(|error| failed("the launcher thread", error))?,
            ledger,
            groups,
            logs: Logs::start().map_err(|error| failed("the log thread", error))?,
            mark,
            work_dir,
            launched: AtomicU32::new(0),
            pins: Pins::default(),
            stop: None,
        })
    }

    fn is_given_up(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// A mark for the next part: the mark of the run, and a number that is unique in the run.
    fn next_mark(&self) -> String {
        let number = self.launched.fetch_add(1, Ordering::Relaxed);
        format!("{}/{number}", self.mark)
    }

    /// Adds `entry` to the ledger.
    fn note(&self, entry: &Entry) -> Result<(), RigError> {
        self.ledger.add(entry).map_err(|error| RigError::file(self.ledger.path(), error))
    }
}
