//! Requests of the operator to a running gateway.

use std::io;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::low_level::exit;
use weir_dataplane::Successor;

/// Exit code after a second stop signal.
const EXIT_AT_ONCE: i32 = 1;

/// A request to the main thread.
#[derive(Debug)]
pub(crate) enum Request {
    /// SIGHUP: reload the configuration.
    Reload,
    /// Referenced files changed: reload them.
    Refresh,
    /// SIGUSR1: reopen the access log.
    Reopen,
    /// SIGUSR2: start the new process of an upgrade.
    Upgrade,
    /// The new process exited before it was ready.
    NewProcessExited(ExitStatus),
    /// The new process was not ready within `--upgrade-timeout`.
    NewProcessTimedOut,
    /// A new process asks for the sockets.
    HandOver(Successor),
    /// SIGTERM, SIGINT, SIGQUIT, or `/drain` of the admin server: drain and exit. A second signal exits at once.
    Stop,
    /// The gateway has drained; false if a worker panicked.
    Drained(bool),
}

fn name_of(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGQUIT => "SIGQUIT",
        _ => "SIGTERM",
    }
}

/// A function that runs before an immediate exit. It must return within a bounded time.
type ExitHook = Box<dyn Fn() + Send + Sync>;

/// The queue of requests, from signals and from other threads that have a [`Sender`].
pub(crate) struct Requests {
    sender: Sender<Request>,
    receiver: Receiver<Request>,
    exit_hook: Arc<OnceLock<ExitHook>>,
}

impl Requests {
    /// Starts to listen for signals.
    pub(crate) fn listen() -> io::Result<Requests> {
        // True while the exit hook runs. Then a third signal exits without waiting for the hook.
        let is_last = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGQUIT] {
            register_conditional_shutdown(signal, EXIT_AT_ONCE, Arc::clone(&is_last))?;
        }
        let all = [SIGHUP, SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGQUIT];
        let mut signals = signal_hook::iterator::Signals::new(all)?;
        let (sender, receiver) = channel();
        let of_signals = sender.clone();
        let exit_hook: Arc<OnceLock<ExitHook>> = Arc::default();
        let last = Arc::clone(&exit_hook);
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
                        if let Some(hook) = last.get() {
                            hook();
                        }
                        exit(EXIT_AT_ONCE);
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
        Ok(Requests { sender, receiver, exit_hook })
    }

    /// Sets the `hook` that the signal thread runs at a second stop signal, before the process exits.
    pub(crate) fn before_immediate_exit(&self, hook: impl Fn() + Send + Sync + 'static) {
        // Only the first hook is kept; the program sets one.
        let _ = self.exit_hook.set(Box::new(hook));
    }

    /// A sender with which other threads add requests to this queue.
    pub(crate) fn sender(&self) -> Sender<Request> {
        self.sender.clone()
    }

    /// Waits for the next [`Request`], such as a reload.
    pub(crate) fn next(&self) -> Request {
        self.receiver.recv().unwrap_or(Request::Stop)
    }
}
