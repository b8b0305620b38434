//! The live line that shows the progress of a load.

use std::fmt::Write;
use std::io::Write as _;

use weir_engine::{LiveSecond, LoadSpec, Progress};
use weir_results::{LoadSecond, quantile_needs, quantile_ns};

use super::figures::{grouped, time};

/// Interval between lines if standard error is not a terminal, in seconds.
const PLAIN_EVERY_S: u64 = 10;

/// Prints the progress of a load.
pub(crate) struct Live {
    mode: Mode,
    warmup_s: f64,
    total_s: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// In one line that is overwritten each second.
    Overwrite,
    /// A new line every [`PLAIN_EVERY_S`] seconds.
    Plain,
    /// Not at all.
    Silent,
}

impl Live {
    pub(crate) fn new(spec: &LoadSpec, is_json: bool, is_terminal: bool) -> Self {
        let mode = match (is_json, is_terminal) {
            (true, _) => Mode::Silent,
            (false, true) => Mode::Overwrite,
            (false, false) => Mode::Plain,
        };
        let steps = spec.steps.len().max(1) as u64;
        let total_s = spec.duration_ns.map(|duration_ns| (spec.warmup_ns + duration_ns * steps) as f64 / 1e9);
        Self { mode, warmup_s: spec.warmup_ns as f64 / 1e9, total_s }
    }

    /// Removes the live line from the terminal.
    pub(crate) fn clear(&self) {
        if self.mode == Mode::Overwrite {
            write_stderr("\r\x1b[K");
        }
    }

    fn line(&self, second: &LoadSecond) -> String {
        let at_s = second.t_s + second.length_s;
        let of = self.total_s.map_or(String::new(), |total_s| format!(" of {total_s:.0} s"));
        let phase = match second.sustained {
            true => "",
            false if second.t_s < self.warmup_s => "  warming up",
            false => "  draining",
        };
        let mut line = format!("{at_s:>5.0} s{of}{phase}  {}/s", grouped(per_s(second.completed, second)));
        if let Ok(histogram) = second.latency.decode() {
            for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
                let is_supported = histogram.len() >= quantile_needs(quantile);
                if let Some(ns) = quantile_ns(&histogram, 0, quantile).filter(|_| is_supported) {
                    // Writing to a string cannot fail.
                    let _ = write!(line, "  {name} {}", time(ns as f64));
                }
            }
        }
        for (name, count) in [("unexpected", second.unexpected), ("no response", second.lost)] {
            if count > 0 {
                let _ = write!(line, "  {name} {}", grouped(count));
            }
        }
        line
    }
}

impl Progress for Live {
    fn second(&self, live: &LiveSecond) {
        let second = &live.second;
        match self.mode {
            Mode::Overwrite => write_stderr(&format!("\r\x1b[K{}", self.line(second))),
            Mode::Plain if ((second.t_s + second.length_s) as u64).is_multiple_of(PLAIN_EVERY_S) => {
                write_stderr(&format!("{}\n", self.line(second)));
            }
            Mode::Plain | Mode::Silent => {}
        }
    }
}

fn per_s(count: u64, second: &LoadSecond) -> u64 {
    if second.length_s > 0.0 { (count as f64 / second.length_s).round() as u64 } else { 0 }
}

fn write_stderr(text: &str) {
    // Errors are ignored, because a closed standard error must not end the load.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_line_names_the_phase() {
        let live = Live { mode: Mode::Plain, warmup_s: 2.0, total_s: Some(10.0) };
        let line = |t_s: f64, sustained| {
            let latency = weir_results::Histogram::encode(&weir_results::new_histogram());
            let (sent, completed, unexpected, lost) = (5, 5, 0, 0);
            live.line(&LoadSecond {
                t_s,
                length_s: 1.0,
                sustained,
                sent,
                completed,
                unexpected,
                lost,
                latency,
            })
        };
        assert!(line(1.0, false).contains("warming up"));
        assert!(!line(3.0, true).contains("  draining"));
        // After Ctrl-C, the load waits for the last responses.
        assert!(line(5.0, false).contains("draining"));
    }
}
