//! The interface of this crate: receives the counts of loads, and passes batches of samples to all receivers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::WatchError;
use crate::books::{Books, PartUse, Second, Totals, Verdict};
use crate::labels::{Labels, Target};
use crate::output::Output;
use crate::push::Pusher;
use crate::series::Batch;

/// Maximum number of series of a [`Watch`]. Further series are not written.
pub const SERIES_MAX: usize = 50_000;

/// Pushes metrics to all receivers. Only [`Watch::finish`] waits for them.
#[derive(Debug)]
pub struct Watch {
    pushers: Vec<Pusher>,
    loads: Mutex<Loads>,
}

#[derive(Debug)]
struct Loads {
    books: BTreeMap<Labels, Books>,
    /// How many series can still be added.
    room: usize,
}

impl Watch {
    /// Starts one thread per receiver. They send no request yet.
    ///
    /// # Errors
    /// If a thread cannot start.
    pub fn start(outputs: &[Output]) -> Result<Self, WatchError> {
        let pushers = outputs.iter().map(Pusher::start).collect::<Result<_, _>>()?;
        Ok(Self { pushers, loads: Mutex::new(Loads { books: BTreeMap::new(), room: SERIES_MAX }) })
    }

    /// Starts the counts of a load at 0. If this is another attempt at the same load, ends the series of the attempt
    /// before. `labels` must not name an agent, because the series of an agent start with its first report.
    pub fn begin(&self, labels: &Labels, target: &Target) {
        let mut loads = self.loads();
        let mut at_ms = now_ms();
        for mut before in loads.remove_load(labels) {
            self.push(before.finish(at_ms));
            at_ms = at_ms.max(before.at_ms() + 1);
        }
        self.push(loads.open(labels, target, at_ms));
    }

    /// Adds the values of a load for one second.
    pub fn second(&self, labels: &Labels, second: &Second<'_>) {
        self.grow(labels, |books, now_ms| books.second(now_ms, second));
    }

    /// Adds CPU and memory of the parts of the rig during a load.
    pub fn parts(&self, labels: &Labels, parts: &[PartUse]) {
        self.grow(labels, |books, now_ms| books.parts(now_ms, parts));
    }

    /// Replaces the counts of a finished load with the totals of its record.
    pub fn whole(&self, labels: &Labels, totals: Totals) {
        self.grow(labels, |books, now_ms| books.whole(now_ms, totals));
    }

    /// Adds the verdicts on a load.
    pub fn judged(&self, labels: &Labels, verdicts: &[Verdict]) {
        self.grow(labels, |books, now_ms| books.judged(now_ms, verdicts));
    }

    /// Ends the series of a load and of its agents. The series of its verdicts end with [`Watch::finish`].
    pub fn end(&self, labels: &Labels) {
        let of_load = self.loads().of_load(labels);
        for labels in of_load {
            self.grow(&labels, Books::end);
        }
    }

    /// Ends all series, and waits until the remaining samples are written, at most 10 s per receiver. Returns a
    /// sentence for each receiver that did not get all samples, and one if series were not written because of
    /// [`SERIES_MAX`].
    pub fn finish(self) -> Vec<String> {
        let ended: Batch = self.loads().books.values_mut().flat_map(|books| books.finish(now_ms())).collect();
        let refused: usize = self.loads().books.values().map(Books::refused).sum();
        let refused = (refused > 0).then(|| {
            format!(
                "{refused} series were not written: a run writes at most {SERIES_MAX} series; use fewer loads or agents"
            )
        });
        let lost = self.pushers.into_iter().filter_map(|pusher| pusher.finish(ended.clone()));
        lost.chain(refused).collect()
    }

    fn grow(&self, labels: &Labels, by: impl FnOnce(&mut Books, u64) -> Batch) {
        let mut loads = self.loads();
        let begun = loads.open_agent(labels);
        self.push(begun);
        let room = loads.room;
        let Some(books) = loads.books.get_mut(labels) else { return };
        books.limit(room);
        let batch = by(books, now_ms());
        loads.room = books.room();
        self.push(batch);
    }

    fn push(&self, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        for pusher in &self.pushers {
            pusher.push(batch.clone());
        }
    }

    fn loads(&self) -> MutexGuard<'_, Loads> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loads {
    /// Starts the counts of a load, or of one shard of it.
    fn open(&mut self, labels: &Labels, target: &Target, at_ms: u64) -> Batch {
        let mut books = Books::new(labels, target, at_ms, self.room);
        let batch = books.begin();
        self.room = books.room();
        self.books.insert(labels.clone(), books);
        batch
    }

    /// Starts the counts of an agent, if this is its first report.
    fn open_agent(&mut self, labels: &Labels) -> Batch {
        if labels.agent.is_empty() || self.books.contains_key(labels) {
            return Batch::default();
        }
        let load = Labels { agent: String::new(), ..labels.clone() };
        // The counts of an agent start at 0 when its load starts. If they started at its first report, all requests
        // before that report would seem to happen within a millisecond.
        let of_load = self.books.get(&load).map(|books| (books.target().clone(), books.since_ms()));
        of_load.map_or_else(Batch::default, |(target, since_ms)| self.open(labels, &target, since_ms))
    }

    /// The labels of the load itself and of its agents.
    fn of_load(&self, load: &Labels) -> Vec<Labels> {
        self.books.keys().filter(|labels| labels.is_of_load(load)).cloned().collect()
    }

    fn remove_load(&mut self, load: &Labels) -> Vec<Books> {
        self.of_load(load).iter().filter_map(|labels| self.books.remove(labels)).collect()
    }
}

/// The current time, in milliseconds since the Unix epoch.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
