//! Pushes the metrics of the loads of `weir run`.

use std::cell::RefCell;
use std::collections::BTreeMap;

use weir_analysis::axes_words;
use weir_engine::{LiveSecond, LoadSpec};
use weir_lab::{PartNow, WatchedLoad, Watcher};
use weir_results::{Measurement, Role};
use weir_watch::{Labels, PartUse, Watch};

use super::{of_agent, push_second, push_whole, target, verdicts};

/// Pushes what the run reports about its loads.
pub(crate) struct RunWatcher<'a> {
    watch: &'a Watch,
    /// Number of attempts at each load so far.
    attempts: RefCell<BTreeMap<Labels, u32>>,
}

impl<'a> RunWatcher<'a> {
    /// Pushes metrics to the targets of `watch`.
    pub(crate) fn new(watch: &'a Watch) -> Self {
        Self { watch, attempts: RefCell::default() }
    }

    /// The labels of the current attempt at a load.
    fn labels(&self, load: &WatchedLoad<'_>) -> Labels {
        let labels = labels(load);
        let attempt = self.attempts.borrow().get(&labels).copied().filter(|attempt| *attempt > 1);
        Labels { attempt: attempt.map(|attempt| attempt.to_string()).unwrap_or_default(), ..labels }
    }
}

impl Watcher for RunWatcher<'_> {
    fn load_started(&self, load: &WatchedLoad<'_>, spec: &LoadSpec) {
        *self.attempts.borrow_mut().entry(labels(load)).or_default() += 1;
        self.watch.begin(&self.labels(load), &target(spec));
    }

    fn second(&self, load: &WatchedLoad<'_>, agent: Option<&str>, second: &LiveSecond) {
        push_second(self.watch, &of_agent(&self.labels(load), agent.unwrap_or_default()), second);
    }

    fn parts(&self, load: &WatchedLoad<'_>, parts: &[PartNow]) {
        self.watch.parts(&self.labels(load), &parts.iter().map(part_use).collect::<Vec<_>>());
    }

    fn load_ended(&self, load: &WatchedLoad<'_>, measurement: Option<&Measurement>) {
        let labels = self.labels(load);
        if let Some(measurement) = measurement {
            push_whole(self.watch, &labels, &measurement.record);
            self.watch.judged(&labels, &verdicts(&measurement.judgement));
        }
        self.watch.end(&labels);
    }
}

fn labels(load: &WatchedLoad<'_>) -> Labels {
    let axes = axes_words(&load.key.axes);
    Labels {
        run: load.run.to_owned(),
        gateway: load.key.gateway.clone(),
        load: load.load.to_owned(),
        cell: format!("{} {axes}", load.key.index).trim_end().to_owned(),
        repeat: (load.key.repeat + 1).to_string(),
        attempt: String::new(),
        agent: String::new(),
    }
}

fn part_use(part: &PartNow) -> PartUse {
    let role = match part.role {
        Role::Data => "data",
        Role::Control => "control",
        Role::Origin => "origin",
        Role::Generator => "generator",
        Role::Service => "service",
    };
    PartUse {
        part: part.name.clone(),
        role: role.to_owned(),
        cpu_cores: part.cpu_cores,
        memory_bytes: part.memory_bytes,
    }
}
