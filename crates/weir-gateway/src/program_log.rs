//! The program's own log: a line on standard error for each thing that is told.
//!
//! A thread writes the lines: a terminal or a pipe that nobody reads holds up no worker. What finds no room in its queue
//! is left out, and how much that was is told with the next line.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use log::{Level, LevelFilter, Log, Metadata, Record};
use serde_json::json;
use weir_config::{ProgramLog, ProgramLogFormat, Severity};
use weir_dataplane::level_filter;

use crate::outlet::Outlet;

/// What all of this program's crates are called in records; others tell nothing.
const OWN: &str = "weir";

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// What the log goes by.
#[derive(Debug)]
pub(crate) struct Levels {
    /// Of the command line, which a configuration does not change.
    is_fixed: bool,
    configured: ProgramLog,
}

#[derive(Debug)]
struct Logger {
    is_json: AtomicBool,
    outlet: Outlet,
}

impl Levels {
    /// Begins to tell, as the configuration and the command line have it.
    pub(crate) fn begin(configured: &ProgramLog, asked: Option<Severity>) -> std::io::Result<Levels> {
        let tell_lost = |lines| log::warn!("log output is blocked; lines dropped: {lines}");
        let outlet = Outlet::open("weir-messages", std::io::stderr(), tell_lost)?;
        let logger = LOGGER.get_or_init(|| Logger { is_json: AtomicBool::new(false), outlet });
        logger.set_format(configured);
        // There is no other logger: the program installs this one, once.
        let _ = log::set_logger(logger);
        log::set_max_level(level_filter(asked.unwrap_or(configured.level)));
        Ok(Levels { is_fixed: asked.is_some(), configured: configured.clone() })
    }

    /// Goes by another configuration. One that says the same as before leaves a level as it is that was set meanwhile.
    pub(crate) fn follow(&mut self, configured: &ProgramLog) {
        if let Some(logger) = LOGGER.get() {
            logger.set_format(configured);
        }
        if configured.level != self.configured.level && !self.is_fixed {
            log::set_max_level(level_filter(configured.level));
        }
        self.configured = configured.clone();
    }
}

/// Tells what was found, each with its remedy in one line.
pub(crate) fn tell(level: Level, lines: &[String]) {
    for line in joined(lines) {
        log::log!(level, "{line}");
    }
}

/// Waits until what was told is written, but no longer than this.
pub(crate) fn finish(patience: Duration) {
    if let Some(logger) = LOGGER.get() {
        logger.outlet.flush(patience);
        log::set_max_level(LevelFilter::Off);
    }
}

/// Lines that go on with the one before them stand in one with it.
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
        let told = Told {
            time: Timestamp::now(),
            level: name_of(record.level()),
            process: std::process::id(),
            message: record.args().to_string(),
        };
        let line = if self.is_json.load(Ordering::Relaxed) { told.json() } else { told.text() };
        self.outlet.write(line.into_bytes());
    }

    /// [`finish`] does, in a time that is bounded.
    fn flush(&self) {}
}

/// A line before it is written.
struct Told {
    time: Timestamp,
    level: &'static str,
    process: u32,
    message: String,
}

impl Told {
    /// `2026-01-31T12:00:00.000Z warn weir-gateway[7]: what`
    fn text(&self) -> String {
        let Told { time, level, process, message } = self;
        let mut text = format!("{time:.3} {level} weir-gateway[{process}]: ");
        for c in message.chars() {
            // A line is a line, whatever stands in it.
            match c.is_control() {
                true => text.extend(c.escape_default()),
                false => text.push(c),
            }
        }
        text.push('\n');
        text
    }

    fn json(&self) -> String {
        let Told { time, level, process, message } = self;
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
    fn a_line_is_a_line() {
        let told = Told {
            time: Timestamp::from_millisecond(1_769_860_800_007).expect("a time"),
            level: "warn",
            process: 7,
            message: "`a\n\u{1b}b\"` is gone".to_owned(),
        };
        assert_eq!(told.text(), "2026-01-31T12:00:00.007Z warn weir-gateway[7]: `a\\n\\u{1b}b\"` is gone\n");
        let json = "{\"time\":\"2026-01-31T12:00:00.007Z\",\"level\":\"warn\",\"process\":7,\
                    \"message\":\"`a\\n\\u001bb\\\"` is gone\"}\n";
        assert_eq!(told.json(), json);
    }

    #[test]
    fn a_problem_and_its_remedy_are_one_line() {
        let lines = ["a.yaml:1:1: wrong", "  help: mend it", "a.yaml:2:1: wrong too", "that is all"];
        assert_eq!(
            joined(&lines.map(str::to_owned)),
            ["a.yaml:1:1: wrong; help: mend it", "a.yaml:2:1: wrong too", "that is all"]
        );
    }
}
