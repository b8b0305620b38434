//! HdrHistogram's interval log: one line per second of each load, with a tag for cell and load.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use weir_results::{Cell, LoadRecord, LoadSecond, Measurement, Run};

use crate::ExportError;
use crate::entry::loads;

/// Histogram values are in nanoseconds. The log's maximum of each interval is in milliseconds, as in HdrHistogram's own
/// logs.
const MAX_VALUE_DIVISOR: f64 = 1e6;

/// What a line of the log contains.
struct Interval<'a> {
    /// Start of the second, milliseconds since the Unix epoch.
    start_unix_ms: u64,
    cell: &'a Cell,
    measurement: &'a Measurement,
    second: &'a LoadSecond,
}

/// Renders the log of a run.
pub(crate) fn draw(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    let base = Duration::from_millis(run.started_unix_ms);
    let base_time = SystemTime::UNIX_EPOCH.checked_add(base).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(&format!("latency in nanoseconds, weir run {}", run.id))
        .with_start_time(base_time)
        .with_base_time(base_time)
        .with_max_value_divisor(MAX_VALUE_DIVISOR)
        .begin_log_with(&mut log, &mut serializer)
        .expect("writing to memory cannot fail");
    for interval in intervals(cells) {
        let load = &interval.measurement.load;
        let histogram =
            interval.second.latency.decode().map_err(ExportError::histogram(interval.cell, load))?;
        let start = Duration::from_millis(interval.start_unix_ms).saturating_sub(base);
        let tag = tag(&interval);
        let tag = Tag::new(&tag);
        let length = seconds(interval.second.length_s);
        writer.write_histogram(&histogram, start, length, tag).expect("writing to memory cannot fail");
    }
    Ok(String::from_utf8(log).expect("numbers, base64 and tags are UTF-8"))
}

/// Each second of each load, as an interval of the log. Ordered by start, because programs that read the log expect
/// this order.
fn intervals(cells: &[Cell]) -> Vec<Interval<'_>> {
    let mut intervals = Vec::new();
    for (cell, measurement) in loads(cells) {
        let begun_ns = begun_mono_ns(&measurement.record);
        // The run does not contain the wall-clock start of a load. So weir assumes that the first load of a cell starts
        // together with the cell. Later loads start after the first one by the difference on the monotonic clock.
        let first_ns = loads(std::slice::from_ref(cell)).map(|(_, other)| begun_mono_ns(&other.record)).min();
        let behind_ms = begun_ns.saturating_sub(first_ns.unwrap_or(begun_ns)) / 1_000_000;
        intervals.extend(measurement.record.seconds.iter().map(|second| {
            let offset_ms = u64::try_from(seconds(second.t_s).as_millis()).unwrap_or(u64::MAX);
            let start_unix_ms = cell.started_unix_ms.saturating_add(behind_ms).saturating_add(offset_ms);
            Interval { start_unix_ms, cell, measurement, second }
        }));
    }
    intervals.sort_by_key(|interval| interval.start_unix_ms);
    intervals
}

/// `CLOCK_MONOTONIC` at the start of the warm-up of a load, nanoseconds.
fn begun_mono_ns(record: &LoadRecord) -> u64 {
    let sustained = record.seconds.iter().find(|second| second.sustained);
    let warmup = seconds(sustained.map_or(0.0, |second| second.t_s));
    record.phase_start_mono_ns.saturating_sub(u64::try_from(warmup.as_nanos()).unwrap_or(u64::MAX))
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// The tag of an interval: `cell=0;gateway=weir;repeat=0;load=full;phase=sustained`, then the axes.
fn tag(interval: &Interval<'_>) -> String {
    let key = &interval.cell.key;
    let phase = if interval.second.sustained { "sustained" } else { "warmup" };
    let mut tag = format!(
        "cell={};gateway={};repeat={};load={};phase={phase}",
        key.index,
        plain(&key.gateway),
        key.repeat,
        plain(&interval.measurement.load)
    );
    if let Some(trial) = &interval.measurement.trial {
        tag.push_str(&format!(";trial={}", trial.number));
    }
    for (path, value) in &key.axes {
        let value = value.as_str().map_or_else(|| plain(value), |text| plain(&text));
        tag.push_str(&format!(";axis.{}={value}", plain(path)));
    }
    tag
}

/// Replaces separators with `_`, because a tag ends at a comma or a space, and its fields end at a semicolon.
fn plain(text: &impl Display) -> String {
    let kept = |c: char| if c == ',' || c == ';' || c.is_whitespace() || c.is_control() { '_' } else { c };
    text.to_string().chars().map(kept).collect()
}
