//! Decides when a load on several agents starts, finishes and fails. The caller passes the events and the current time.
//!
//! All agents must prepare, start and finish. If one fails, the load ends on all agents: no other agent takes over its
//! shard.

use weir_results::words::counted;

use crate::RoundFailure;
use crate::message::AgentFailure;

/// Time limit for agents to open their connections.
const PREPARE_MAX_NS: u64 = 60_000_000_000;

/// Time between the decision to start and the start itself. In this time, the message must reach all agents.
const LEAD_NS: u64 = 300_000_000;

/// An agent counts as stuck if it has not finished this long after the end of the load.
const STUCK_AFTER_NS: u64 = 30_000_000_000;

/// An event of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Said<R> {
    /// The agent has opened all connections for the load.
    Prepared,
    /// The agent has finished its shard.
    Done(R),
    /// The agent has failed.
    Failed(AgentFailure),
    /// The agent sends no data, or its connection was closed.
    Lost(String),
}

/// What the caller must do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action<R> {
    /// Wait for events of agents, at most until `until_ns`.
    Listen {
        /// The latest time at which to call [`Round::next`] again, nanoseconds.
        until_ns: u64,
    },
    /// Start all agents at the time `at_ns`. Returned once per load.
    Start {
        /// The start of the load, nanoseconds.
        at_ns: u64,
    },
    /// All agents have finished. Their results are in the order of the agents.
    Finish(Vec<R>),
    /// The load failed; end it on all agents.
    Fail(RoundFailure),
}

#[derive(Debug)]
enum State<R> {
    Preparing,
    Prepared,
    Done(R),
}

/// One load on several agents, each with a result `R`.
#[derive(Debug)]
pub struct Round<R> {
    agents: Vec<(String, State<R>)>,
    /// The time by which all agents must be prepared (before the start) or finished (after it).
    deadline_ns: u64,
    /// Maximum duration of the load.
    longest_ns: u64,
    has_started: bool,
    failure: Option<RoundFailure>,
}

impl<R> Round<R> {
    /// A load that is assigned to `agents` (their names) at `now_ns`. `longest_ns` is the maximum duration of the load.
    pub fn new(agents: impl IntoIterator<Item = String>, now_ns: u64, longest_ns: u64) -> Self {
        Self {
            agents: agents.into_iter().map(|name| (name, State::Preparing)).collect(),
            deadline_ns: now_ns + PREPARE_MAX_NS,
            longest_ns,
            has_started: false,
            failure: None,
        }
    }

    /// Handles an event of the agent with the index `agent`. Of several failures, only the first is kept.
    pub fn hear(&mut self, agent: usize, said: Said<R>) {
        let Some((name, state)) = self.agents.get_mut(agent) else { return };
        let failure = match (said, &state) {
            (Said::Prepared, State::Preparing) => {
                *state = State::Prepared;
                return;
            }
            (Said::Done(report), State::Prepared) if self.has_started => {
                *state = State::Done(report);
                return;
            }
            // An agent may disconnect after its result has arrived.
            (Said::Lost(_), State::Done(_)) => return,
            (Said::Lost(why), _) => lost(&why),
            (Said::Failed(failure), _) => failure,
            (Said::Prepared | Said::Done(_), _) => unexpected(),
        };
        self.failure.get_or_insert(RoundFailure { agent: name.clone(), failure });
    }

    /// Whether [`Round::next`] has returned the start time.
    pub fn has_started(&self) -> bool {
        self.has_started
    }

    /// Records that the load ends early at `now_ns`: all agents must then finish within 30 s.
    pub fn end_early(&mut self, now_ns: u64) {
        self.deadline_ns = self.deadline_ns.min(now_ns + STUCK_AFTER_NS);
    }

    /// Decides what the caller must do at `now_ns`.
    pub fn next(&mut self, now_ns: u64) -> Action<R> {
        if let Some(failure) = self.failure.clone().or_else(|| self.overdue(now_ns)) {
            return Action::Fail(failure);
        }
        if !self.has_started && self.agents.iter().all(|(_, state)| matches!(state, State::Prepared)) {
            self.has_started = true;
            let at_ns = now_ns + LEAD_NS;
            self.deadline_ns = at_ns + self.longest_ns + STUCK_AFTER_NS;
            return Action::Start { at_ns };
        }
        if self.agents.iter().all(|(_, state)| matches!(state, State::Done(_))) {
            let reports = self.agents.drain(..).filter_map(|(_, state)| match state {
                State::Done(report) => Some(report),
                State::Preparing | State::Prepared => None,
            });
            return Action::Finish(reports.collect());
        }
        Action::Listen { until_ns: self.deadline_ns }
    }

    /// The failure of the first agent that has missed the current time limit, if any.
    fn overdue(&self, now_ns: u64) -> Option<RoundFailure> {
        if now_ns < self.deadline_ns {
            return None;
        }
        let is_behind = |state: &State<R>| match self.has_started {
            true => !matches!(state, State::Done(_)),
            false => matches!(state, State::Preparing),
        };
        let behind: Vec<&str> =
            self.agents.iter().filter(|(_, state)| is_behind(state)).map(|(name, _)| name.as_str()).collect();
        let first = behind.first()?;
        let more = match behind.len() {
            1 => String::new(),
            several => format!(" ({} are late)", counted(several as u64, "agent")),
        };
        let message = match self.has_started {
            true => format!("it did not finish its load in time{more}"),
            false => {
                format!("it did not open its connections within {} s{more}", PREPARE_MAX_NS / 1_000_000_000)
            }
        };
        Some(RoundFailure {
            agent: (*first).to_owned(),
            failure: AgentFailure::new("stuck", message, "see the log of the agent"),
        })
    }
}

fn lost(why: &str) -> AgentFailure {
    let remedy = "check that the machine runs and is reachable, and see the log of the agent";
    AgentFailure::new("lost", format!("lost: {why}"), remedy)
}

fn unexpected() -> AgentFailure {
    AgentFailure::new("lost", "it sent an unexpected message", "report this as a bug")
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn round() -> Round<u32> {
        Round::new(["a".to_owned(), "b".to_owned()], 0, 10 * S)
    }

    #[test]
    fn all_agents_start_at_the_same_time_once_all_are_prepared() {
        let mut round = round();
        assert_eq!(round.next(0), Action::Listen { until_ns: PREPARE_MAX_NS });
        round.hear(1, Said::Prepared);
        assert_eq!(round.next(S), Action::Listen { until_ns: PREPARE_MAX_NS });
        round.hear(0, Said::Prepared);
        assert_eq!(round.next(2 * S), Action::Start { at_ns: 2 * S + LEAD_NS });
        let until_ns = 12 * S + LEAD_NS + STUCK_AFTER_NS;
        assert_eq!(round.next(3 * S), Action::Listen { until_ns });
        round.hear(0, Said::Done(7));
        assert_eq!(round.next(13 * S), Action::Listen { until_ns });
        // An agent may disconnect after its report.
        round.hear(0, Said::Lost("closed".into()));
        round.hear(1, Said::Done(7));
        assert_eq!(round.next(13 * S), Action::Finish(vec![7, 7]));
    }

    #[test]
    fn a_load_that_ends_early_has_the_time_limit_of_a_stuck_one() {
        let mut round = round();
        round.hear(0, Said::Prepared);
        round.hear(1, Said::Prepared);
        assert!(!round.has_started());
        assert!(matches!(round.next(0), Action::Start { .. }) && round.has_started());
        round.end_early(S);
        assert_eq!(round.next(S), Action::Listen { until_ns: S + STUCK_AFTER_NS });
        assert!(matches!(round.next(S + STUCK_AFTER_NS), Action::Fail(_)));
    }

    #[test]
    fn a_failed_agent_ends_the_load_for_all_with_the_first_reason() {
        let check = |prepare: bool, said: Vec<(usize, Said<u32>)>, at_ns: u64, expected: &str| {
            let mut round = round();
            if prepare {
                round.hear(0, Said::Prepared);
                round.hear(1, Said::Prepared);
                assert!(matches!(round.next(0), Action::Start { .. }));
            }
            for (agent, said) in said {
                round.hear(agent, said);
            }
            let Action::Fail(failure) = round.next(at_ns) else { panic!("{expected}") };
            assert_eq!(failure.to_string(), expected);
        };
        let full = || AgentFailure { message: "the disk is full".into(), ..lost("") };
        let closed = || Said::Lost("the connection was closed".into());
        check(false, vec![(1, Said::Failed(full()))], S, "agent b: the disk is full");
        check(
            true,
            vec![(1, closed()), (0, Said::Failed(full()))],
            S,
            "agent b: lost: the connection was closed",
        );
        check(false, vec![(0, closed())], S, "agent a: lost: the connection was closed");
        check(false, vec![(0, Said::Done(7))], S, "agent a: it sent an unexpected message");
        check(
            false,
            vec![(0, Said::Prepared)],
            PREPARE_MAX_NS,
            "agent b: it did not open its connections within 60 s",
        );
        check(
            false,
            vec![],
            PREPARE_MAX_NS,
            "agent a: it did not open its connections within 60 s (2 agents are late)",
        );
        let end_ns = LEAD_NS + 10 * S + STUCK_AFTER_NS;
        check(true, vec![(0, Said::Done(7))], end_ns, "agent b: it did not finish its load in time");
    }
}
