//! Reports a load to a watcher while it runs: the generator's results of each second, and the usage of parts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_engine::{LiveSecond, LoadSpec};
use weir_results::{CellKey, Measurement};
use weir_rig::{PartReading, Sampler};

use crate::watch::{PartNow, WatchedLoad, Watcher};

/// How often CPU and memory are reported.
const PARTS_EVERY: Duration = Duration::from_secs(1);

/// Reports the loads of a cell to a watcher.
#[derive(Clone, Copy)]
pub(crate) struct CellWatch<'a> {
    pub(crate) watcher: &'a dyn Watcher,
    /// ID of the run.
    pub(crate) run: &'a str,
    pub(crate) key: &'a CellKey,
}

/// Reports one load to a watcher.
pub(crate) struct Watching<'a> {
    watcher: &'a dyn Watcher,
    load: WatchedLoad<'a>,
    seconds: Seconds,
    before: BTreeMap<String, PartReading>,
    due: Instant,
}

/// The file that the generator appends a line per second to.
#[derive(Debug)]
pub(crate) struct Seconds {
    path: PathBuf,
    file: Option<File>,
    /// The start of an incomplete line.
    partial: Vec<u8>,
}

impl<'a> CellWatch<'a> {
    /// Starts to report the load `name`. Its generator appends a line per second to the file `progress`.
    pub(crate) fn begin(self, name: &'a str, spec: &LoadSpec, progress: PathBuf) -> Watching<'a> {
        let load = self.load(name);
        self.watcher.load_started(&load, spec);
        // Removes the file of the previous attempt, which a retry would read again.
        let _ = std::fs::remove_file(&progress);
        let seconds = Seconds::of(progress);
        Watching { watcher: self.watcher, load, seconds, before: BTreeMap::new(), due: Instant::now() }
    }

    /// Reports that the load has ended, with its measurement, or has failed.
    pub(crate) fn end(self, name: &str, measurement: Option<&Measurement>) {
        self.watcher.load_ended(&self.load(name), measurement);
    }

    fn load<'b>(self, load: &'b str) -> WatchedLoad<'b>
    where
        'a: 'b,
    {
        WatchedLoad { run: self.run, key: self.key, load }
    }
}

impl Watching<'_> {
    /// Reports a second of the load that `agent` has generated.
    pub(crate) fn second_of(&self, agent: &str, second: &LiveSecond) {
        self.watcher.second(&self.load, Some(agent), second);
    }

    /// Reports the seconds since the last call and, once per second, the usage of all parts.
    pub(crate) fn look(&mut self, sampler: &Sampler) {
        for second in self.seconds.read() {
            self.watcher.second(&self.load, None, &second);
        }
        if Instant::now() >= self.due {
            self.due = Instant::now() + PARTS_EVERY;
            let readings = sampler.latest();
            let parts: Vec<PartNow> = readings.iter().map(|now| self.since_before(now)).collect();
            self.watcher.parts(&self.load, &parts);
            self.before = readings.into_iter().map(|reading| (reading.name.clone(), reading)).collect();
        }
    }

    fn since_before(&self, now: &PartReading) -> PartNow {
        let before = self.before.get(&now.name);
        let cpu_cores = before.and_then(|before| {
            let wall_ns = now.at_ns.checked_sub(before.at_ns).filter(|wall_ns| *wall_ns > 0)?;
            Some(now.cpu_ns?.checked_sub(before.cpu_ns?)? as f64 / wall_ns as f64)
        });
        let PartReading { name, role, memory_bytes, .. } = now.clone();
        PartNow { name, role, cpu_cores, memory_bytes }
    }
}

impl Seconds {
    /// A reader of the file `path`, which need not exist yet.
    pub(crate) fn of(path: PathBuf) -> Self {
        Self { path, file: None, partial: Vec::new() }
    }

    /// The seconds that were written since the last call. A read error is ignored, because the totals of a load come
    /// from its record.
    pub(crate) fn read(&mut self) -> Vec<LiveSecond> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return Vec::new() };
        if file.read_to_end(&mut self.partial).is_err() {
            return Vec::new();
        }
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut self.partial, rest);
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use weir_results::{Histogram, LoadSecond, new_histogram};

    use super::*;

    fn second(sent: u64) -> LiveSecond {
        let second = LoadSecond {
            t_s: 0.0,
            length_s: 1.0,
            sustained: true,
            sent,
            completed: 0,
            unexpected: 0,
            lost: 3,
            latency: Histogram::encode(&new_histogram()),
        };
        LiveSecond { second, timed_out: 1, dropped: 1, offered_per_s: Some(5.5), connections: 2 }
    }

    #[test]
    fn seconds_are_read_once_and_only_if_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress.jsonl");
        let mut seconds = Seconds::of(path.clone());
        assert!(seconds.read().is_empty());
        let mut file = File::create(&path).unwrap();
        let lines: Vec<String> =
            (1..4).map(|sent| serde_json::to_string(&second(sent)).unwrap() + "\n").collect();
        let (half, rest) = lines[1].split_at(20);
        write!(file, "{}{half}", lines[0]).unwrap();
        assert_eq!(seconds.read(), [second(1)]);
        assert!(seconds.read().is_empty());
        write!(file, "{rest}{}", lines[2]).unwrap();
        let read = seconds.read();
        assert_eq!(read, [second(2), second(3)]);
        assert_eq!(read[0].failed(), 1);
    }
}
