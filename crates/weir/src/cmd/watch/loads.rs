//! Pushes the metrics of `weir load`.

use std::cell::RefCell;

use weir_engine::{LiveSecond, LoadSpec, Progress};
use weir_results::{Judgement, LoadRecord};
use weir_watch::{Labels, PartUse, Watch};

use super::own::OwnUse;
use super::{finish, of_agent, push_second, push_whole, target, verdicts};

/// Pushes each second of a load, and then passes it on to `next`.
pub(crate) struct WatchedLoad<'a> {
    watch: Watch,
    labels: Labels,
    own: RefCell<OwnUse>,
    next: &'a dyn Progress,
}

impl<'a> WatchedLoad<'a> {
    /// Starts to push the metrics of the load that is sent to `authority`. Each second is also passed to `next`.
    pub(crate) fn new(watch: Watch, spec: &LoadSpec, authority: &str, next: &'a dyn Progress) -> Self {
        let labels = Labels {
            run: format!("load-{}", weir_lab::new_run_id()),
            gateway: authority.to_owned(),
            load: "load".to_owned(),
            cell: "0".to_owned(),
            repeat: "1".to_owned(),
            attempt: String::new(),
            agent: String::new(),
        };
        watch.begin(&labels, &target(spec));
        Self { watch, labels, own: RefCell::new(OwnUse::now()), next }
    }

    /// Pushes one second of `agent`'s shard, and passes this second on to `next`.
    pub(crate) fn second_of(&self, agent: &str, second: &LiveSecond) {
        push_second(&self.watch, &of_agent(&self.labels, agent), second);
        self.next.second(second);
    }

    /// Pushes the totals and verdicts of a load that has ended. `outcome` is `None` if it failed.
    pub(crate) fn end(self, outcome: Option<(&LoadRecord, &Judgement)>) {
        if let Some((record, judgement)) = outcome {
            push_whole(&self.watch, &self.labels, record);
            self.watch.judged(&self.labels, &verdicts(judgement));
        }
        self.watch.end(&self.labels);
        finish(self.watch);
    }
}

impl Progress for WatchedLoad<'_> {
    fn second(&self, second: &LiveSecond) {
        push_second(&self.watch, &self.labels, second);
        let mut own = self.own.borrow_mut();
        let now = OwnUse::now();
        let part = PartUse {
            part: "generator".to_owned(),
            role: "generator".to_owned(),
            cpu_cores: now.cores_since(&own),
            memory_bytes: now.memory_bytes,
        };
        self.watch.parts(&self.labels, &[part]);
        *own = now;
        self.next.second(second);
    }
}
