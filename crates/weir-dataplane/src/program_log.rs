//! The program log, through the `log` crate. The embedding program installs a logger, or none.
//!
//! Workers log rare events. They may log every request only at level `debug`. Messages that a remote side can cause go
//! through [`seldom!`], which limits how often one call site may log. The next line from that call site reports how
//! many lines were suppressed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use log::{Level, LevelFilter};
use weir_config::Severity;

/// Lines are counted per call site, in windows of this length.
const WINDOW_NS: u64 = 10_000_000_000;

/// One call site may log this many lines per window at levels above `debug`.
const LINES_MOST: u64 = 10;
/// One call site may log this many lines per window at level `debug`, where users expect many lines.
const DEBUG_LINES_MOST: u64 = 1_000;

/// The filter of the `log` crate for this severity.
pub fn level_filter(severity: Severity) -> LevelFilter {
    match severity {
        Severity::Error => LevelFilter::Error,
        Severity::Warn => LevelFilter::Warn,
        Severity::Info => LevelFilter::Info,
        Severity::Debug => LevelFilter::Debug,
    }
}

/// Counts the lines of one call site and suppresses those beyond the limit.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// When the window began; 0 before the first line.
    began_ns: AtomicU64,
    /// Lines in the window, including suppressed ones.
    lines: AtomicU64,
    /// Lines suppressed since the last written line.
    left_out: AtomicU64,
}

/// Number of suppressed lines, printed at the end of the next written line. Zero prints nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut(u64);

impl Throttle {
    pub(crate) const fn new() -> Throttle {
        Throttle { began_ns: AtomicU64::new(0), lines: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Returns `None` if a line of this level must be suppressed now. Otherwise returns the number of lines suppressed
    /// before it.
    pub(crate) fn pass(&self, level: Level, now_ns: u64) -> Option<LeftOut> {
        let most = if level >= Level::Debug { DEBUG_LINES_MOST } else { LINES_MOST };
        let began_ns = self.began_ns.load(Ordering::Relaxed);
        let is_over = began_ns == 0 || now_ns.saturating_sub(began_ns) >= WINDOW_NS;
        let relaxed = Ordering::Relaxed;
        if is_over && self.began_ns.compare_exchange(began_ns, now_ns.max(1), relaxed, relaxed).is_ok() {
            self.lines.store(0, relaxed);
        }
        if self.lines.fetch_add(1, relaxed) < most {
            return Some(LeftOut(self.left_out.swap(0, relaxed)));
        }
        self.left_out.fetch_add(1, relaxed);
        None
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            lines => write!(f, " (similar lines suppressed: {lines})"),
        }
    }
}

/// Logs at a level, unless this call site has reached its limit.
macro_rules! seldom {
    ($level:expr, $($message:tt)+) => {
        if log::log_enabled!($level) {
            static THROTTLE: $crate::program_log::Throttle = $crate::program_log::Throttle::new();
            if let Some(left_out) = THROTTLE.pass($level, weir_io::mono_ns()) {
                log::log!($level, "{}{left_out}", format_args!($($message)+));
            }
        }
    };
}
pub(crate) use seldom;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_suppressed_and_counted() {
        let throttle = Throttle::new();
        let passed = |level, now_ns, times: u64| {
            (0..times)
                .filter_map(|_| throttle.pass(level, now_ns))
                .map(|left_out| left_out.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(passed(Level::Warn, 5, LINES_MOST + 7), [0; LINES_MOST as usize]);
        assert!(passed(Level::Warn, WINDOW_NS + 4, 1).is_empty(), "the window is not over");
        assert_eq!(passed(Level::Warn, WINDOW_NS + 5, 2), [8, 0]);
        assert_eq!(passed(Level::Debug, WINDOW_NS + 5, DEBUG_LINES_MOST).len() as u64, DEBUG_LINES_MOST - 2);
        assert_eq!(LeftOut(8).to_string() + &LeftOut(0).to_string(), " (similar lines suppressed: 8)");
    }
}
