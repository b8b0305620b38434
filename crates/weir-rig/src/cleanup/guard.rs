//! The guard: a process that outlives the lab (the weir process of the run) and cleans up after it.
//!
//! The guard's standard input is a pipe from the lab, which never writes to it. When the lab exits, even by SIGKILL,
//! the kernel closes the lab's end of the pipe. Then the guard kills every process in the run's ledger, and removes the
//! cgroups and the work folder of the run. A lab that exits normally has already removed the ledger.

use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::ledger;

/// How long the guard waits before it removes late containers. In this time, a container engine may still create a
/// container that the lab requested just before the lab exited.
const LATE_CONTAINER: Duration = Duration::from_secs(2);

/// Waits for the end of standard input, then cleans up after the run whose ledger is at `path`.
pub fn run_guard(path: &Path) {
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte) {
            Ok(1) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    if !path.exists() {
        return;
    }
    let entries = ledger::read(path);
    ledger::clean(path);
    // A container engine may still create a container that the lab requested just before the lab died.
    for (engine, run) in ledger::containers(&entries) {
        thread::sleep(LATE_CONTAINER);
        engine.remove_containers(run);
    }
    if path.exists() {
        ledger::clean(path);
    }
}
