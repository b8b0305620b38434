//! The listening sockets of the process, and which worker accepts from which.
//!
//! They are the gateway's; workers have copies of the descriptors. So a worker that goes, or gives a socket to another,
//! closes none: who is in its queue waits for whoever accepts next. Sockets are closed only with their listener, by its
//! workers, once nobody is in the queue (listener.rs).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use weir_config::{Listener, ListenerId};
use weir_io::{begin_listening, bind_shared, listen_shared};

use crate::gateway::GatewayError;
use crate::spread::{Berth, Host, Spread};

/// Connections that may wait to be accepted, for each socket.
const BACKLOG: i32 = 4096;

/// A listening socket on its way from one process to another.
#[derive(Debug)]
pub struct Passed {
    /// Whose it is.
    pub listener: ListenerId,
    /// The socket.
    pub socket: TcpListener,
    /// Others keep it when this process ends, as systemd does: its queue is theirs to serve then.
    pub is_lent: bool,
}

/// A listener with all its sockets.
#[derive(Debug)]
pub(crate) struct OpenListener {
    /// By which workers know it.
    pub(crate) id: u64,
    /// In counters.
    pub(crate) name: String,
    pub(crate) bound: SocketAddr,
    spread: Arc<Spread>,
    /// Of its workers, by their positions.
    berths: Vec<Arc<Berth>>,
    sockets: Vec<HeldSocket>,
}

#[derive(Debug)]
struct HeldSocket {
    socket: TcpListener,
    is_lent: bool,
}

/// A worker's copy of a socket.
#[derive(Debug)]
pub(crate) struct DealtSocket {
    /// Which of the listener's.
    pub(crate) number: usize,
    pub(crate) socket: TcpListener,
    pub(crate) is_lent: bool,
}

/// What another number of workers makes of a listener's sockets, before it does.
#[derive(Debug)]
pub(crate) struct Redealt {
    /// Bound, and not yet listening.
    grown: Vec<HeldSocket>,
    /// For each of the new number of workers.
    pub(crate) hands: Vec<Hand>,
}

/// What changes for one worker.
#[derive(Debug)]
pub(crate) struct Hand {
    pub(crate) gets: Vec<DealtSocket>,
    pub(crate) gives: Vec<usize>,
}

impl OpenListener {
    /// Opens the sockets of `listener`, one for each worker, or takes those that were `passed`.
    pub(crate) fn open(
        listener: &Listener,
        id: u64,
        workers: usize,
        passed: Vec<Passed>,
    ) -> Result<OpenListener, GatewayError> {
        let failed = |error| GatewayError::Listen { address: listener.address, error };
        let mut sockets: Vec<HeldSocket> = passed
            .into_iter()
            .map(|passed| HeldSocket { socket: passed.socket, is_lent: passed.is_lent })
            .collect();
        if sockets.is_empty() {
            let opened = listen_shared(listener.address, workers, BACKLOG).map_err(failed)?;
            sockets.extend(opened.into_iter().map(HeldSocket::own));
        }
        let bound = sockets[0].socket.local_addr().map_err(failed)?;
        let name = listener.name.clone().unwrap_or_else(|| bound.to_string());
        let (spread, berths) = (Arc::default(), Vec::new());
        let mut open = OpenListener { id, name, bound, spread, berths, sockets };
        let grown = open.grown(workers);
        open.take_in(grown);
        Ok(open)
    }

    /// The copies for each of so many workers.
    pub(crate) fn dealt(&self, workers: usize) -> io::Result<Vec<Vec<DealtSocket>>> {
        let sockets: Vec<&HeldSocket> = self.sockets.iter().collect();
        (0..workers).map(|worker| copies(&sockets, deal(sockets.len(), workers, worker))).collect()
    }

    /// What changes with the number of workers; nothing has changed yet.
    pub(crate) fn redealt(&self, from: usize, to: usize) -> io::Result<Redealt> {
        let grown = self.grown(to);
        let sockets: Vec<&HeldSocket> = self.sockets.iter().chain(&grown).collect();
        let hand = |worker: usize| {
            let before = if worker < from { deal(self.sockets.len(), from, worker) } else { Vec::new() };
            let after = deal(sockets.len(), to, worker);
            let new = after.iter().copied().filter(|number| !before.contains(number)).collect();
            let gives = before.iter().copied().filter(|number| !after.contains(number)).collect();
            Ok(Hand { gets: copies(&sockets, new)?, gives })
        };
        let hands = (0..to).map(hand).collect::<io::Result<_>>()?;
        Ok(Redealt { grown, hands })
    }

    /// From here on it has the sockets that were added, and no worker beyond those that are dealt to.
    pub(crate) fn settle(&mut self, redealt: Redealt) -> Vec<Hand> {
        self.take_in(redealt.grown);
        let workers = redealt.hands.len().min(self.berths.len());
        for berth in self.berths.drain(workers..) {
            self.spread.close(&berth);
        }
        redealt.hands
    }

    /// Has a worker know of the listener, by `tell`, and then its clients spread over this one, too.
    pub(crate) fn spread_over(
        &mut self,
        worker: usize,
        host: &Host,
        tell: impl FnOnce((Arc<Spread>, Arc<Berth>)),
    ) {
        let known = self.berths.get(worker).cloned();
        let berth = known.clone().unwrap_or_else(|| Berth::new(host));
        tell((Arc::clone(&self.spread), Arc::clone(&berth)));
        if known.is_none() {
            self.spread.open(&berth);
            self.berths.push(berth);
        }
    }

    /// Copies of its sockets, for another process.
    pub(crate) fn passed(&self, listener: ListenerId) -> io::Result<Vec<Passed>> {
        let copy = |held: &HeldSocket| {
            Ok(Passed { listener, socket: held.socket.try_clone()?, is_lent: held.is_lent })
        };
        self.sockets.iter().map(copy).collect()
    }

    /// As many more sockets as are wanted for each worker to have one; none where the port is not ours to share. Then
    /// workers accept from the same ones.
    fn grown(&self, workers: usize) -> Vec<HeldSocket> {
        let missing = workers.saturating_sub(self.sockets.len());
        let bound = bind_shared(self.bound, missing).unwrap_or_default();
        bound.into_iter().map(HeldSocket::own).collect()
    }

    fn take_in(&mut self, grown: Vec<HeldSocket>) {
        for held in &grown {
            // The port is ours and shared already: nothing is left that could refuse it. Where it does all the same,
            // no client comes to this socket, and the others have them.
            let _ = begin_listening(&held.socket, BACKLOG);
        }
        self.sockets.extend(grown);
    }
}

impl HeldSocket {
    fn own(socket: TcpListener) -> HeldSocket {
        HeldSocket { socket, is_lent: false }
    }
}

fn copies(sockets: &[&HeldSocket], numbers: Vec<usize>) -> io::Result<Vec<DealtSocket>> {
    let copy = |number: usize| {
        let HeldSocket { socket, is_lent } = sockets[number];
        Ok(DealtSocket { number, socket: socket.try_clone()?, is_lent: *is_lent })
    };
    numbers.into_iter().map(copy).collect()
}

/// The sockets that a worker accepts from: each worker has as many to itself, and what is left over they all share, so
/// that none has more to do than another.
fn deal(sockets: usize, workers: usize, worker: usize) -> Vec<usize> {
    let even = sockets - sockets % workers;
    (0..sockets).filter(|number| *number >= even || number % workers == worker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sockets: usize, workers: usize, expected: &[&[usize]]) {
        let dealt: Vec<Vec<usize>> = (0..workers).map(|worker| deal(sockets, workers, worker)).collect();
        assert_eq!(dealt, expected, "{sockets} sockets, {workers} workers");
    }

    #[test]
    fn every_socket_has_a_worker_and_none_has_more_than_another() {
        check(2, 2, &[&[0], &[1]]);
        check(4, 2, &[&[0, 2], &[1, 3]]);
        check(3, 2, &[&[0, 2], &[1, 2]]);
        check(1, 3, &[&[0], &[0], &[0]]);
        for (sockets, workers) in (1..20).flat_map(|s| (1..20).map(move |w| (s, w))) {
            let dealt: Vec<Vec<usize>> = (0..workers).map(|worker| deal(sockets, workers, worker)).collect();
            assert!(dealt.iter().all(|numbers| numbers.len() == dealt[0].len() && !numbers.is_empty()));
            assert!((0..sockets).all(|number| dealt.iter().any(|numbers| numbers.contains(&number))));
        }
    }

    fn open(workers: usize) -> OpenListener {
        let listener = Listener::plain(SocketAddr::from(([127, 0, 0, 1], 0)));
        OpenListener::open(&listener, 0, workers, Vec::new()).unwrap()
    }

    fn numbers(hands: &[Hand]) -> Vec<(Vec<usize>, Vec<usize>)> {
        let of = |hand: &Hand| (hand.gets.iter().map(|socket| socket.number).collect(), hand.gives.clone());
        hands.iter().map(of).collect()
    }

    #[test]
    fn only_what_changes_is_dealt_anew() {
        let mut listener = open(4);
        let fewer = listener.redealt(4, 2).unwrap();
        assert_eq!(numbers(&fewer.hands), [(vec![2], vec![]), (vec![3], vec![])]);
        listener.settle(fewer);
        let odd = listener.redealt(2, 3).unwrap();
        assert_eq!(
            numbers(&odd.hands),
            [(vec![3], vec![2]), (vec![], vec![]), (vec![2, 3], vec![])],
            "the fourth is shared by all"
        );
        listener.settle(odd);
        let more = listener.redealt(3, 5).unwrap();
        assert_eq!(more.grown.len(), 1);
        listener.settle(more);
        assert_eq!(listener.sockets.len(), 5);
        assert!(listener.sockets.iter().all(|held| held.socket.local_addr().unwrap() == listener.bound));
    }

    #[test]
    fn a_port_that_is_not_shared_has_its_sockets_shared() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let passed = Passed { listener: address.into(), socket, is_lent: true };
        let listener = OpenListener::open(&Listener::plain(address), 0, 3, vec![passed]).unwrap();
        let dealt = listener.dealt(3).unwrap();
        let numbers: Vec<usize> = dealt.iter().flatten().map(|socket| socket.number).collect();
        assert_eq!((numbers, dealt[0][0].is_lent), (vec![0, 0, 0], true));
    }
}
