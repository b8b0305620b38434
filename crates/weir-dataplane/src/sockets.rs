//! The listening sockets of the process, and their distribution over the workers.
//!
//! The gateway owns the sockets; workers have copies of the descriptors. So a socket stays open when its worker ends or
//! passes it to another worker. The queued clients then wait for the next worker. Workers close a socket only if its
//! listener closes, and only once no client is queued (listener.rs).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use weir_config::{Listener, ListenerId};
use weir_io::{begin_listening, bind_shared, listen_shared};

use crate::gateway::GatewayError;
use crate::spread::{HandoffTarget, Host, Spread};

/// The accept queue limit of each socket.
const BACKLOG: i32 = 4096;

/// A listening socket that is handed from one process to another.
#[derive(Debug)]
pub struct Passed {
    /// The listener that the socket belongs to.
    pub listener: ListenerId,
    /// The listening socket.
    pub socket: TcpListener,
    /// Whether another process, such as systemd, keeps the socket open and serves its queue after this process has
    /// exited.
    pub is_lent: bool,
}

/// A listener with all its sockets.
#[derive(Debug)]
pub(crate) struct OpenListener {
    /// The id of the listener in commands to workers.
    pub(crate) id: u64,
    /// The name in metrics.
    pub(crate) name: String,
    pub(crate) bound: SocketAddr,
    spread: Arc<Spread>,
    /// The handoff target of each worker, by the worker's position.
    targets: Vec<Arc<HandoffTarget>>,
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
    /// The number of the socket within the listener.
    pub(crate) number: usize,
    pub(crate) socket: TcpListener,
    pub(crate) is_lent: bool,
}

/// The planned distribution of a listener's sockets over a new number of workers.
#[derive(Debug)]
pub(crate) struct SocketPlan {
    /// New sockets, bound but not yet listening.
    grown: Vec<HeldSocket>,
    /// For each worker that exists after the change, in order of position: the sockets that it gets and gives away.
    pub(crate) moves: Vec<SocketMoves>,
}

/// The sockets that one worker gets and gives away.
#[derive(Debug)]
pub(crate) struct SocketMoves {
    pub(crate) gets: Vec<DealtSocket>,
    pub(crate) gives: Vec<usize>,
}

impl OpenListener {
    /// Opens the sockets of `listener`, one for each worker, or uses the `passed` ones.
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
        let (spread, targets) = (Arc::default(), Vec::new());
        let mut open = OpenListener { id, name, bound, spread, targets, sockets };
        let grown = open.grown(workers);
        open.take_in(grown);
        Ok(open)
    }

    /// Copies of the sockets for each of `workers` workers.
    pub(crate) fn dealt(&self, workers: usize) -> io::Result<Vec<Vec<DealtSocket>>> {
        let sockets: Vec<&HeldSocket> = self.sockets.iter().collect();
        (0..workers).map(|worker| copies(&sockets, deal(sockets.len(), workers, worker))).collect()
    }

    /// Plans the change from one number of workers to another, without applying it.
    pub(crate) fn plan_change(&self, from: usize, to: usize) -> io::Result<SocketPlan> {
        let grown = self.grown(to);
        let sockets: Vec<&HeldSocket> = self.sockets.iter().chain(&grown).collect();
        let moved = |worker: usize| {
            let before = if worker < from { deal(self.sockets.len(), from, worker) } else { Vec::new() };
            let after = deal(sockets.len(), to, worker);
            let new = after.iter().copied().filter(|number| !before.contains(number)).collect();
            let gives = before.iter().copied().filter(|number| !after.contains(number)).collect();
            Ok(SocketMoves { gets: copies(&sockets, new)?, gives })
        };
        let moves = (0..to).map(moved).collect::<io::Result<_>>()?;
        Ok(SocketPlan { grown, moves })
    }

    /// Applies a plan: adds the new sockets, and removes the handoff targets of surplus workers.
    pub(crate) fn apply_plan(&mut self, plan: SocketPlan) -> Vec<SocketMoves> {
        self.take_in(plan.grown);
        let workers = plan.moves.len().min(self.targets.len());
        for target in self.targets.drain(workers..) {
            self.spread.close(&target);
        }
        plan.moves
    }

    /// Calls `tell` to announce the listener to `worker`. After that, other workers may hand over clients to `worker`.
    pub(crate) fn spread_over(
        &mut self,
        worker: usize,
        host: &Host,
        tell: impl FnOnce((Arc<Spread>, Arc<HandoffTarget>)),
    ) {
        let known = self.targets.get(worker).cloned();
        let target = known.clone().unwrap_or_else(|| HandoffTarget::new(host));
        tell((Arc::clone(&self.spread), Arc::clone(&target)));
        if known.is_none() {
            self.spread.open(&target);
            self.targets.push(target);
        }
    }

    /// Copies of the listener's sockets, for another process.
    pub(crate) fn passed(&self, listener: ListenerId) -> io::Result<Vec<Passed>> {
        let copy = |held: &HeldSocket| {
            Ok(Passed { listener, socket: held.socket.try_clone()?, is_lent: held.is_lent })
        };
        self.sockets.iter().map(copy).collect()
    }

    /// New sockets, so that each worker can have its own. Empty if the port can't be shared; then workers accept from
    /// the same sockets.
    fn grown(&self, workers: usize) -> Vec<HeldSocket> {
        let missing = workers.saturating_sub(self.sockets.len());
        let bound = bind_shared(self.bound, missing).unwrap_or_default();
        bound.into_iter().map(HeldSocket::own).collect()
    }

    fn take_in(&mut self, grown: Vec<HeldSocket>) {
        for held in &grown {
            // The process already shares this port, so an error is unlikely. After an error, the kernel gives this
            // socket's clients to the other sockets.
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

/// Indexes of the sockets from which a worker accepts. Each worker has the same number of sockets for itself. All
/// workers share any remaining sockets, so the load is even.
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
    fn every_socket_has_a_worker_and_all_workers_have_equally_many() {
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

    fn numbers(moves: &[SocketMoves]) -> Vec<(Vec<usize>, Vec<usize>)> {
        let of = |moved: &SocketMoves| {
            (moved.gets.iter().map(|socket| socket.number).collect(), moved.gives.clone())
        };
        moves.iter().map(of).collect()
    }

    #[test]
    fn only_changed_sockets_move_between_workers() {
        let mut listener = open(4);
        let fewer = listener.plan_change(4, 2).unwrap();
        assert_eq!(numbers(&fewer.moves), [(vec![2], vec![]), (vec![3], vec![])]);
        listener.apply_plan(fewer);
        let odd = listener.plan_change(2, 3).unwrap();
        assert_eq!(
            numbers(&odd.moves),
            [(vec![3], vec![2]), (vec![], vec![]), (vec![2, 3], vec![])],
            "all workers share the fourth socket"
        );
        listener.apply_plan(odd);
        let more = listener.plan_change(3, 5).unwrap();
        assert_eq!(more.grown.len(), 1);
        listener.apply_plan(more);
        assert_eq!(listener.sockets.len(), 5);
        assert!(listener.sockets.iter().all(|held| held.socket.local_addr().unwrap() == listener.bound));
    }

    #[test]
    fn workers_share_the_sockets_of_a_port_that_cannot_be_shared() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let passed = Passed { listener: address.into(), socket, is_lent: true };
        let listener = OpenListener::open(&Listener::plain(address), 0, 3, vec![passed]).unwrap();
        let dealt = listener.dealt(3).unwrap();
        let numbers: Vec<usize> = dealt.iter().flatten().map(|socket| socket.number).collect();
        assert_eq!((numbers, dealt[0][0].is_lent), (vec![0, 0, 0], true));
    }
}
