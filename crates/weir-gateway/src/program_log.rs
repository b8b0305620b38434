//! The program's log: one line on standard error per event.
//!
//! A separate thread writes the lines, so that a full pipe does not block workers. If the thread's queue is full, lines
//! are dropped. Their number is logged after the next written line.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use log::{Level, LevelFilter, Log, Metadata, Record};
use serde_json::json;
use weir_config::{ProgramLog, ProgramLogFormat, Severity};
use weir_dataplane::level_filter;

use crate::outlet::Outlet;

/// The prefix of log targets of this program's crates. Records of other crates are not logged.
const OWN: &str = "weir";

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// The log settings.
#[derive(Debug)]
pub(crate) struct Levels {
    /// Whether the command line sets the level. If so, configurations do not change it.
    is_fixed: bool,
    configured: ProgramLog,
}

#[derive(Debug)]
struct Logger {
    is_json: AtomicBool,
    outlet: Outlet,
}

impl Levels {
    /// Starts logging. `asked` is the level of the command line and overrides the configuration.
    pub(crate) fn begin(configured: &ProgramLog, asked: Option<Severity>) -> std::io::Result<Levels> {
        let report_dropped = |lines| log::warn!("log output is blocked; lines dropped: {lines}");
        let outlet = Outlet::open("weir-messages", std::io::stderr(), report_dropped)?;
        let logger = LOGGER.get_or_init(|| Logger { is_json: AtomicBool::new(false), outlet });
        logger.set_format(configured);
        // There is no other logger: the program installs this one, once.
        let _ = log::set_logger(logger);
        log::set_max_level(level_filter(asked.unwrap_or(configured.level)));
        Ok(Levels { is_fixed: asked.is_some(), configured: configured.clone() })
    }

    /// Applies another configuration. If its level is the same as before, a level that was set through the admin server
    /// stays.
    pub(crate) fn update(&mut self, configured: &ProgramLog) {
        if let Some(logger) = LOGGER.get() {
            logger.set_format(configured);
        }
        if configured.level != self.configured.level && !self.is_fixed {
            log::set_max_level(level_filter(configured.level));
        }
        self.configured = configured.clone();
    }
}

/// Logs each problem with its remedy on one line.
pub(crate) fn log_problems(level: Level, lines: &[String]) {
    for line in joined(lines) {
        log::log!(level, "{line}");
    }
}

/// Waits until all lines are written, at most `timeout`.
pub(crate) fn finish(timeout: Duration) {
    if let Some(logger) = LOGGER.get() {
        logger.outlet.flush(timeout);
        log::set_max_level(LevelFilter::Off);
    }
}

/// Joins each indented line to the line before it.
fn joined(lines: &[String]) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for line in lines {
        match joined.last_mut() {
            Some(last) if line.starts_with(' ') => {
                last.push_str("; ");
                last.push_str(line.trim_start());
            }
            _ => joined.push(line.clone()),
        }
    }
    joined
}

impl Logger {
    fn set_format(&self, configured: &ProgramLog) {
        self.is_json.store(configured.format == ProgramLogFormat::Json, Ordering::Relaxed);
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with(OWN)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let entry = Entry {
            time: Timestamp::now(),
            level: name_of(record.level()),
            process: std::process::id(),
            message: record.args().to_string(),
        };
        let line = if self.is_json.load(Ordering::Relaxed) { entry.json() } else { entry.text() };
        self.outlet.write(line.into_bytes());
    }

    /// Does nothing. [`finish`] flushes instead, within a bounded time.
    fn flush(&self) {}
}

/// A log line before it is formatted.
struct Entry {
    time: Timestamp,
    level: &'static str,
    process: u32,
    message: String,
}

impl Entry {
    /// A line such as `2026-01-31T12:00:00.000Z warn weir-gateway[7]: what`.
    fn text(&self) -> String {
        let Entry { time, level, process, message } = self;
        let mut text = format!("{time:.3} {level} weir-gateway[{process}]: ");
        for c in message.chars() {
            // Control characters could forge a line.
            match c.is_control() {
                true => text.extend(c.escape_default()),
                false => text.push(c),
            }
        }
        text.push('\n');
        text
    }

    fn json(&self) -> String {
        let Entry { time, level, process, message } = self;
        let line =
            json!({ "time": format!("{time:.3}"), "level": level, "process": process, "message": message });
        format!("{line}\n")
    }
}

fn name_of(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug | Level::Trace => "debug",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let entry = Entry {
            time: Timestamp::from_millisecond(1_769_860_800_007).expect("a time"),
            level: "warn",
            process: 7,
            message: "`a\n\u{1b}b\"` is gone".to_owned(),
        };
        assert_eq!(entry.text(), "2026-01-31T12:00:00.007Z warn weir-gateway[7]: `a\\n\\u{1b}b\"` is gone\n");
        let json = "{\"time\":\"2026-01-31T12:00:00.007Z\",\"level\":\"warn\",\"process\":7,\
                    \"message\":\"`a\\n\\u001bb\\\"` is gone\"}\n";
        assert_eq!(entry.json(), json);
    }

    #[test]
    fn a_problem_and_its_remedy_are_logged_on_one_line() {
        let lines = ["a.yaml:1:1: wrong", "  help: mend it", "a.yaml:2:1: wrong too", "that is all"];
        assert_eq!(
            joined(&lines.map(str::to_owned)),
            ["a.yaml:1:1: wrong; help: mend it", "a.yaml:2:1: wrong too", "that is all"]
        );
    }
}
