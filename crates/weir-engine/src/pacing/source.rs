//! Sources of arrivals: a schedule independent of responses, or free connections.

use std::collections::VecDeque;

use crate::pacing::schedule::Arrivals;
use crate::spec::ShardSpec;
use crate::timeline::Timeline;

/// A request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Its index over all machines that share the load.
    pub(crate) index: u64,
    /// The request to send, as an argument of [`crate::request::RequestSource::choose`]. It is the index, unless its
    /// slot replays a recorded session.
    pub(crate) pick: u64,
    pub(crate) intended_ns: u64,
    /// Whether it is already counted: it was handed out before, and was not sent or not processed.
    pub(crate) is_again: bool,
    /// Whether it was sent before and the peer reported that it was not processed.
    pub(crate) was_sent: bool,
}

impl Arrival {
    fn new(index: u64, intended_ns: u64) -> Self {
        Self { index, pick: index, intended_ns, is_again: false, was_sent: false }
    }
}

/// One worker's arrivals.
#[derive(Debug)]
pub(crate) struct Source {
    model: Model,
    /// Arrivals that were handed out to a dead connection; at most one per connection.
    returned: VecDeque<Arrival>,
    shard: ShardSpec,
}

#[derive(Debug)]
enum Model {
    Closed {
        index: u64,
        step: u64,
        /// Requests left of the sustained phase's count; `None` without a count.
        left: Option<u64>,
    },
    /// Waiting arrivals are only the distance between two cursors, so a backlog needs no memory.
    Open {
        /// The next arrival to be sent or dropped.
        head: Arrivals,
        /// The first arrival that was not due at the last check.
        due: Arrivals,
        /// The first arrival for which no alarm has been set.
        ahead: Arrivals,
        step: u64,
        /// The first index after the end of the schedule.
        end_index: u64,
    },
}

impl Source {
    /// A closed loop's arrivals for worker `worker` of `workers`, with `left` in the sustained phase.
    pub(crate) fn closed(worker: u64, workers: u64, left: Option<u64>) -> Self {
        let model = Model::Closed { index: worker, step: workers, left };
        Self { model, returned: VecDeque::new(), shard: ShardSpec::WHOLE }
    }

    /// An open loop's arrivals for one worker of `workers`, up to `end_index`.
    pub(crate) fn open(arrivals: Arrivals, workers: u64, end_index: u64) -> Self {
        let (due, ahead) = (arrivals.clone(), arrivals.clone());
        let model = Model::Open { head: arrivals, due, ahead, step: workers, end_index };
        Self { model, returned: VecDeque::new(), shard: ShardSpec::WHOLE }
    }

    /// Numbers the arrivals over all machines that share the load.
    pub(crate) fn of_shard(self, shard: ShardSpec) -> Self {
        Self { shard, ..self }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.model, Model::Open { .. })
    }

    /// Takes the next arrival that is due.
    #[inline]
    pub(crate) fn take(&mut self, now_ns: u64, timeline: &Timeline) -> Option<Arrival> {
        if let Some(again) = self.returned.pop_front() {
            return Some(Arrival { is_again: true, ..again });
        }
        match &mut self.model {
            Model::Closed { index, step, left } => {
                if now_ns >= timeline.end_ns {
                    return None;
                }
                if now_ns >= timeline.sustain_ns
                    && let Some(left) = left
                {
                    *left = left.checked_sub(1)?;
                }
                let arrival = Arrival::new(self.shard.number(*index), now_ns);
                *index += *step;
                Some(arrival)
            }
            Model::Open { head, end_index, .. } => {
                let intended_ns = timeline.start_ns + head.due_ns();
                let is_due = intended_ns <= now_ns && intended_ns < timeline.end_ns;
                if !is_due || head.index() >= *end_index {
                    return None;
                }
                let arrival = Arrival::new(self.shard.number(head.index()), intended_ns);
                head.advance();
                Some(arrival)
            }
        }
    }

    /// Takes the next arrival if it is intended for `before_ns` or earlier (open loop, or handed out before).
    pub(crate) fn take_expired(&mut self, before_ns: u64, timeline: &Timeline) -> Option<Arrival> {
        match (&self.model, self.returned.front()) {
            (_, Some(again)) if again.intended_ns <= before_ns => self.take(before_ns, timeline),
            (_, Some(_)) | (Model::Closed { .. }, None) => None,
            (Model::Open { .. }, None) => self.take(before_ns, timeline),
        }
    }

    /// Returns an arrival that was not sent; it is handed out next.
    pub(crate) fn give_back(&mut self, arrival: Arrival) {
        self.returned.push_back(arrival);
    }

    /// When the next arrival is due; `None` if there are no more.
    #[inline]
    pub(crate) fn next_due_ns(&self, now_ns: u64, timeline: &Timeline) -> Option<u64> {
        match &self.model {
            _ if !self.returned.is_empty() => Some(0),
            Model::Closed { left, .. } => {
                let has_more = *left != Some(0) || now_ns < timeline.sustain_ns;
                (has_more && now_ns < timeline.end_ns).then_some(timeline.start_ns)
            }
            Model::Open { head, end_index, .. } => {
                let intended_ns = timeline.start_ns + head.due_ns();
                (head.index() < *end_index && intended_ns < timeline.end_ns).then_some(intended_ns)
            }
        }
    }

    /// Due time of the first arrival after `covered_ns`, the time up to which alarms are set. `None` if there are no
    /// more, or in a closed loop.
    pub(crate) fn next_after(&mut self, covered_ns: u64, timeline: &Timeline) -> Option<u64> {
        let Model::Open { head, ahead, end_index, .. } = &mut self.model else { return None };
        if ahead.index() < head.index() {
            ahead.clone_from(head);
        }
        while ahead.index() < *end_index {
            let due_ns = timeline.start_ns + ahead.due_ns();
            if due_ns >= timeline.end_ns {
                return None;
            }
            if due_ns > covered_ns {
                return Some(due_ns);
            }
            ahead.advance();
        }
        None
    }

    /// Arrivals that are due and wait for a connection.
    pub(crate) fn waiting(&mut self, now_ns: u64, timeline: &Timeline) -> u64 {
        let again = self.returned.len() as u64;
        match &mut self.model {
            Model::Closed { .. } => again,
            Model::Open { head, due, step, end_index, .. } => {
                if due.index() < head.index() {
                    due.clone_from(head);
                }
                let until_ns = now_ns.min(timeline.end_ns.saturating_sub(1));
                while due.index() < *end_index && timeline.start_ns + due.due_ns() <= until_ns {
                    due.advance();
                }
                again + (due.index() - head.index()) / *step
            }
        }
    }

    /// Whether a closed loop's count is used up and no arrival must be sent again.
    pub(crate) fn is_used_up(&self) -> bool {
        matches!(self.model, Model::Closed { left: Some(0), .. }) && self.returned.is_empty()
    }

    /// Whether a closed loop ends by its count.
    pub(crate) fn ends_by_count(&self) -> bool {
        matches!(self.model, Model::Closed { left: Some(_), .. })
    }
}
