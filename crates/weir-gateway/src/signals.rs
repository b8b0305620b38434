//! What the operator asks of a running gateway.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;

/// What a signal stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM, SIGINT: drain and end. A second one ends at once.
    Stop,
}

/// The signals that the gateway listens for.
pub(crate) struct Signals {
    signals: signal_hook::iterator::Signals,
    stopping: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Signals> {
        let stopping = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            register_conditional_shutdown(signal, 1, Arc::clone(&stopping))?;
        }
        let signals = signal_hook::iterator::Signals::new([SIGHUP, SIGTERM, SIGINT])?;
        Ok(Signals { signals, stopping })
    }

    /// Waits for the next request.
    pub(crate) fn next_request(&mut self) -> Request {
        match self.signals.forever().next() {
            Some(SIGHUP) => Request::Reload,
            _ => {
                self.stopping.store(true, Ordering::Relaxed);
                Request::Stop
            }
        }
    }
}

/// Every connection takes a file descriptor, and the default of 1,024 would be the lowest limit of all.
pub(crate) fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without it the gateway works too, with fewer connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
