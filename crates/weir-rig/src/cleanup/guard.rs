//! The guard: a process that outlives the lab and cleans up after it.
//!
//! The lab holds the other end of the guard's standard input and never writes to it. When the lab exits, even by
//! SIGKILL, the kernel closes that end. Then the guard kills every process in the run's ledger, and removes the cgroups
//! and the work folder of the run. A lab that exits normally has already removed the ledger.

use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::ledger;

/// How long a container engine may take to create a container that the lab requested just before it died.
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
    // A container engine may still create a container that the lab requested just before it died.
    for (engine, run) in ledger::containers(&entries) {
        thread::sleep(LATE_CONTAINER);
        engine.remove_containers(run);
    }
    if path.exists() {
        ledger::clean(path);
    }
}
