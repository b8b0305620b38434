//! The entry point: takes counts of loads, and passes batches to every receiver.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::WatchError;
use crate::books::{Books, PartUse, Second, Totals, Verdict};
use crate::labels::{Labels, Target};
use crate::output::Output;
use crate::push::Pusher;
use crate::series::Batch;

/// Maximum number of series of a watch; more are not written.
pub const SERIES_MAX: usize = 50_000;

/// Pushes metrics to receivers. Only [`Watch::finish`] waits for a receiver.
#[derive(Debug)]
pub struct Watch {
    pushers: Vec<Pusher>,
    loads: Mutex<Loads>,
}

#[derive(Debug)]
struct Loads {
    books: BTreeMap<Labels, Books>,
    /// Series that may still be added.
    room: usize,
}

impl Watch {
    /// Starts one thread per output; sends no request yet.
    ///
    /// # Errors
    /// If a thread cannot start.
    pub fn start(outputs: &[Output]) -> Result<Self, WatchError> {
        let pushers = outputs.iter().map(Pusher::start).collect::<Result<_, _>>()?;
        Ok(Self { pushers, loads: Mutex::new(Loads { books: BTreeMap::new(), room: SERIES_MAX }) })
    }

    /// Starts a load, or another attempt of it: its counters start at 0. `labels` have no agent, because an agent
    /// starts with its first report.
    pub fn begin(&self, labels: &Labels, target: &Target) {
        let mut loads = self.loads();
        let mut at_ms = now_ms();
        for mut before in loads.remove_load(labels) {
            self.push(before.finish(at_ms));
            at_ms = at_ms.max(before.at_ms() + 1);
        }
        self.push(loads.open(labels, target, at_ms));
    }

    /// Adds a second of a load.
    pub fn second(&self, labels: &Labels, second: &Second<'_>) {
        self.grow(labels, |books, now_ms| books.second(now_ms, second));
    }

    /// Adds CPU and memory of parts during a load.
    pub fn parts(&self, labels: &Labels, parts: &[PartUse]) {
        self.grow(labels, |books, now_ms| books.parts(now_ms, parts));
    }

    /// Ends the counts of a load; `totals` are those of its record.
    pub fn whole(&self, labels: &Labels, totals: Totals) {
        self.grow(labels, |books, now_ms| books.whole(now_ms, totals));
    }

    /// Adds the verdicts of a load.
    pub fn judged(&self, labels: &Labels, verdicts: &[Verdict]) {
        self.grow(labels, |books, now_ms| books.judged(now_ms, verdicts));
    }

    /// Ends the series of a load and of its agents. [`Watch::finish`] ends the series of its verdicts.
    pub fn end(&self, labels: &Labels) {
        let of_load = self.loads().of_load(labels);
        for labels in of_load {
            self.grow(&labels, Books::end);
        }
    }

    /// Ends all series and writes pending samples, within some seconds. Returns a sentence per receiver that lacks
    /// samples.
    pub fn finish(self) -> Vec<String> {
        let ended: Batch = self.loads().books.values_mut().flat_map(|books| books.finish(now_ms())).collect();
        let refused: usize = self.loads().books.values().map(Books::refused).sum();
        let refused = (refused > 0).then(|| {
            format!(
                "{refused} series were not written: a run writes at most {SERIES_MAX}; watch fewer loads or agents at a time"
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
    /// Starts the counts of a load, or of an agent's share of it.
    fn open(&mut self, labels: &Labels, target: &Target, at_ms: u64) -> Batch {
        let mut books = Books::new(labels, target, at_ms, self.room);
        let batch = books.begin();
        self.room = books.room();
        self.books.insert(labels.clone(), books);
        batch
    }

    /// Starts the counts of an agent at its first report.
    fn open_agent(&mut self, labels: &Labels) -> Batch {
        if labels.agent.is_empty() || self.books.contains_key(labels) {
            return Batch::default();
        }
        let load = Labels { agent: String::new(), ..labels.clone() };
        // The counts start with the load, so that the agent's first second is not longer than others.
        let of_load = self.books.get(&load).map(|books| (books.target().clone(), books.since_ms()));
        of_load.map_or_else(Batch::default, |(target, since_ms)| self.open(labels, &target, since_ms))
    }

    /// The keys of the load and of its agents.
    fn of_load(&self, load: &Labels) -> Vec<Labels> {
        self.books.keys().filter(|labels| labels.is_of_load(load)).cloned().collect()
    }

    fn remove_load(&mut self, load: &Labels) -> Vec<Books> {
        self.of_load(load).iter().filter_map(|labels| self.books.remove(labels)).collect()
    }
}

/// Milliseconds since the Unix epoch.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
