//! What the operator asks of a running gateway.

use std::io;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::low_level::exit;
use weir_dataplane::Successor;

/// The exit code after a second signal.
const ENDED_AT_ONCE: i32 = 1;

/// What there is to do.
#[derive(Debug)]
pub(crate) enum Request {
    /// SIGHUP: read the configuration again.
    Reload,
    /// Files have changed: read those again.
    Refresh,
    /// SIGUSR1: open the access log anew.
    Reopen,
    /// SIGUSR2: start the next process.
    Upgrade,
    /// That one has ended before it served.
    NextHasEnded(ExitStatus),
    /// That one has neither served nor ended in time.
    NextIsLate,
    /// A process that serves soon asks for the sockets.
    HandOver(Successor),
    /// SIGTERM, SIGINT, SIGQUIT, `/drain` of the admin server: drain and end. A second signal ends at once.
    Stop,
    /// The gateway has drained; false where a worker panicked.
    Ended(bool),
}

fn name_of(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGQUIT => "SIGQUIT",
        _ => "SIGTERM",
    }
}

/// What is done before the process ends at once, in a time that is bounded.
type LastAct = Box<dyn Fn() + Send + Sync>;

/// The requests of signals, and of whoever else has a [`Sender`].
pub(crate) struct Requests {
    sender: Sender<Request>,
    receiver: Receiver<Request>,
    last_act: Arc<OnceLock<LastAct>>,
}

impl Requests {
    /// Begins to listen for signals.
    pub(crate) fn listen() -> io::Result<Requests> {
        // Set while the last act goes on: yet another signal does not wait for it.
        let is_last = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGQUIT] {
            register_conditional_shutdown(signal, ENDED_AT_ONCE, Arc::clone(&is_last))?;
        }
        let all = [SIGHUP, SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGQUIT];
        let mut signals = signal_hook::iterator::Signals::new(all)?;
        let (sender, receiver) = channel();
        let of_signals = sender.clone();
        let last_act: Arc<OnceLock<LastAct>> = Arc::default();
        let last = Arc::clone(&last_act);
        std::thread::Builder::new().name("weir-signals".to_owned()).spawn(move || {
            let mut is_stopping = false;
            for signal in signals.forever() {
                let request = match signal {
                    SIGHUP => Request::Reload,
                    SIGUSR1 => Request::Reopen,
                    SIGUSR2 => Request::Upgrade,
                    _ if is_stopping => {
                        log::warn!("second stop signal ({}): stopping at once", name_of(signal));
                        is_last.store(true, Ordering::Relaxed);
                        if let Some(act) = last.get() {
                            act();
                        }
                        exit(ENDED_AT_ONCE);
                    }
                    _ => {
                        is_stopping = true;
                        Request::Stop
                    }
                };
                if of_signals.send(request).is_err() {
                    return;
                }
            }
        })?;
        Ok(Requests { sender, receiver, last_act })
    }

    /// Has this done when a second signal ends the process at once, on the thread that hears it.
    pub(crate) fn before_the_end(&self, act: impl Fn() + Send + Sync + 'static) {
        // The program has one.
        let _ = self.last_act.set(Box::new(act));
    }

    /// Where else requests may come from.
    pub(crate) fn sender(&self) -> Sender<Request> {
        self.sender.clone()
    }

    /// Waits for the next request.
    pub(crate) fn next(&self) -> Request {
        self.receiver.recv().unwrap_or(Request::Stop)
    }
}
