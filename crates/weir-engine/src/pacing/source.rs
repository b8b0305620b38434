//! Decides which request is sent next, and when: by a schedule (open loop), or whenever a connection is free
//! (closed loop).

use std::collections::VecDeque;

use crate::pacing::schedule::Arrivals;
use crate::spec::ShardSpec;
use crate::timeline::Timeline;

/// A request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Index of the arrival among the arrivals of all machines that share the load.
    pub(crate) index: u64,
    /// The argument for [`crate::request::RequestSource::choose`], which selects the request. It equals `index`, unless
    /// a slot replays a recorded session: then it counts the requests of the slot.
    pub(crate) pick: u64,
    pub(crate) intended_ns: u64,
    /// Whether the arrival was taken before and given back. It is then already counted as scheduled.
    pub(crate) is_again: bool,
    /// Whether the request was already sent, but the peer reported that it did not process the request.
    pub(crate) was_sent: bool,
}

impl Arrival {
    fn new(index: u64, intended_ns: u64) -> Self {
        Self { index, pick: index, intended_ns, is_again: false, was_sent: false }
    }
}

/// The arrivals of one worker.
#[derive(Debug)]
pub(crate) struct Source {
    model: Model,
    /// Arrivals from [`Source::give_back`]: the connection was lost before the request was sent or processed. At most
    /// one per slot.
    returned: VecDeque<Arrival>,
    shard: ShardSpec,
}

#[derive(Debug)]
enum Model {
    Closed {
        index: u64,
        step: u64,
        /// Number of requests that are left to start, if the phase ends after a number of requests; `None` if it ends
        /// after a duration.
        left: Option<u64>,
    },
    /// An open loop stores only three positions in the schedule, not the arrivals that wait for a connection. So a
    /// backlog needs no memory.
    Open {
        /// The next arrival to be sent or dropped.
        head: Arrivals,
        /// The first arrival that was not due at the last check.
        due: Arrivals,
        /// The first arrival for which no wake-up is set yet.
        ahead: Arrivals,
        step: u64,
        /// The first index after the end of the schedule.
        end_index: u64,
    },
}

impl Source {
    /// The arrivals of a closed loop for worker `worker` of `workers`. If the sustained phase ends after a number of
    /// requests, `left` is this worker's part of that number.
    pub(crate) fn closed(worker: u64, workers: u64, left: Option<u64>) -> Self {
        let model = Model::Closed { index: worker, step: workers, left };
        Self { model, returned: VecDeque::new(), shard: ShardSpec::WHOLE }
    }

    /// The arrivals of an open loop for one worker. The load has `workers` workers. `end_index` is the first index
    /// after the end of the schedule.
    pub(crate) fn open(arrivals: Arrivals, workers: u64, end_index: u64) -> Self {
        let (due, ahead) = (arrivals.clone(), arrivals.clone());
        let model = Model::Open { head: arrivals, due, ahead, step: workers, end_index };
        Self { model, returned: VecDeque::new(), shard: ShardSpec::WHOLE }
    }

    /// Sets which part of the load this machine drives. Arrivals are numbered over all machines that share the load.
    pub(crate) fn of_shard(self, shard: ShardSpec) -> Self {
        Self { shard, ..self }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.model, Model::Open { .. })
    }

    /// Takes the next arrival if it is due at `now_ns`. Arrivals that were given back come first.
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

    /// Takes the next arrival if its intended time is `before_ns` or earlier. In a closed loop, returns only arrivals
    /// that were given back.
    pub(crate) fn take_expired(&mut self, before_ns: u64, timeline: &Timeline) -> Option<Arrival> {
        match (&self.model, self.returned.front()) {
            (_, Some(again)) if again.intended_ns <= before_ns => self.take(before_ns, timeline),
            (_, Some(_)) | (Model::Closed { .. }, None) => None,
            (Model::Open { .. }, None) => self.take(before_ns, timeline),
        }
    }

    /// Takes back an arrival whose request was not written, or not processed by the peer. [`Self::take`] returns such
    /// arrivals before all others.
    pub(crate) fn give_back(&mut self, arrival: Arrival) {
        self.returned.push_back(arrival);
    }

    /// When the next arrival is due; a time in the past if it can be sent now. `None` if there are no more.
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

    /// Returns the due time of the first arrival after `covered_ns`. Wake-ups up to `covered_ns` are already set.
    /// Returns `None` in a closed loop, or if no arrival is left.
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

    /// Returns the number of arrivals that are due and wait for a connection.
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

    /// Whether a closed loop with a fixed number of requests has no arrival left to send. Arrivals passed to
    /// [`Source::give_back`] count as left until they are taken again.
    pub(crate) fn is_used_up(&self) -> bool {
        matches!(self.model, Model::Closed { left: Some(0), .. }) && self.returned.is_empty()
    }

    /// Whether this is a closed loop that ends after a number of requests.
    pub(crate) fn ends_by_count(&self) -> bool {
        matches!(self.model, Model::Closed { left: Some(_), .. })
    }
}
