//! What a worker reports when its load has ended.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use weir_results::new_histogram;

use crate::flow::FlowReport;
use crate::tls::Session;

/// Maximum number of different messages. Further ones are counted together, as "other".
const SAYINGS_MAX: usize = 16;

/// The result of a worker's load, with the CPU time and the run-queue delay of its thread.
#[derive(Debug)]
pub(crate) struct WorkerReport {
    pub(crate) flow: FlowReport,
    pub(crate) connections_opened: u64,
    /// CPU time of the worker's thread in the sustained phase.
    pub(crate) cpu_ns: u64,
    /// Time in the sustained phase in which the worker's thread was ready to run but had no CPU; `None` if unknown.
    pub(crate) runqueue_ns: Option<u64>,
    pub(crate) said: Said,
    pub(crate) tls: TlsBooks,
    pub(crate) http2: super::Http2Books,
}

/// Messages about failures, each with the number of times that it occurred.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said(BTreeMap<String, u64>);

/// Counts and durations of one worker's TLS handshakes.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsBooks {
    pub(crate) handshakes: u64,
    pub(crate) resumed: u64,
    pub(crate) failed: u64,
    pub(crate) negotiated: BTreeMap<String, u64>,
    /// Handshake durations of the connections that were opened together, before the load's clock started.
    pub(crate) opening: Option<Histogram<u64>>,
    /// Handshake durations of the connections that were opened after the load's clock started.
    pub(crate) later: Option<Histogram<u64>>,
}

impl Said {
    /// Counts a message, if there is one.
    pub(crate) fn add(&mut self, said: Option<String>) {
        if let Some(said) = said {
            self.count(said, 1);
        }
    }

    /// Adds the messages of another worker to these.
    pub(crate) fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(said, count)| self.count(said.clone(), *count));
    }

    /// Returns all messages with their counts.
    pub(crate) fn into_map(self) -> BTreeMap<String, u64> {
        self.0
    }

    fn count(&mut self, said: String, count: u64) {
        let is_known = self.0.contains_key(&said) || self.0.len() < SAYINGS_MAX - 1;
        *self.0.entry(if is_known { said } else { "other".into() }).or_default() += count;
    }
}

impl TlsBooks {
    /// Counts a completed handshake that took `took_ns`. `is_opening` says whether it took place before the load's
    /// clock started.
    pub(crate) fn finished(&mut self, session: &Session, took_ns: u64, is_opening: bool) {
        self.handshakes += 1;
        self.resumed += u64::from(session.is_resumed());
        *self.negotiated.entry(session.negotiated()).or_default() += 1;
        self.record(took_ns, is_opening);
    }

    fn record(&mut self, took_ns: u64, is_opening: bool) {
        let times = if is_opening { &mut self.opening } else { &mut self.later };
        times.get_or_insert_with(new_histogram).saturating_record(took_ns);
    }

    /// Returns the handshake durations of connections that were opened after the load's clock started. If there are
    /// none, returns those of the connections that were opened before.
    pub(crate) fn times(&self) -> Option<&Histogram<u64>> {
        self.later.as_ref().or(self.opening.as_ref())
    }

    /// Adds the counts of another worker to these.
    pub(crate) fn add(&mut self, other: &Self) {
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        self.failed += other.failed;
        for (what, count) in &other.negotiated {
            *self.negotiated.entry(what.clone()).or_default() += count;
        }
        for (own, others) in [(&mut self.opening, &other.opening), (&mut self.later, &other.later)] {
            if let Some(times) = others {
                crate::recording::recorder::add_histogram(own.get_or_insert_with(new_histogram), times);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_later_handshakes_those_of_the_opening_are_summarized() {
        let (mut sum, mut first, mut second) =
            (TlsBooks::default(), TlsBooks::default(), TlsBooks::default());
        // Durations are compared in microseconds, because the histogram has a limited resolution.
        let summary = |books: &TlsBooks| books.times().map(|times| (times.len(), times.max() / 1_000));
        assert_eq!(summary(&sum), None);
        [900_000, 1_000_000].into_iter().for_each(|ns| first.record(ns, true));
        second.record(800_000, true);
        sum.add(&first);
        sum.add(&second);
        assert_eq!(summary(&sum), Some((3, 1_000)));
        second.record(20_000, false);
        sum.add(&second);
        assert_eq!(summary(&sum), Some((1, 20)));
    }

    #[test]
    fn messages_are_counted_and_limited() {
        let mut said = Said::default();
        said.add(None);
        for nth in 0..100 {
            said.add(Some(format!("saying {nth}")));
            said.add(Some("saying 0".into()));
        }
        let mut twice = said.clone();
        twice.add_all(&said);
        let map = twice.into_map();
        assert_eq!((map.len(), map["saying 0"], map["other"]), (SAYINGS_MAX, 202, 2 * 85));
    }
}
