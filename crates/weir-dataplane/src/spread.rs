//! Distributes the clients of a listener over the workers.
//!
//! The kernel distributes clients by a hash of their addresses. With few long-lived clients, one worker may get twice
//! as many as another. So a worker that would exceed 1.25 times the mean hands its next client to the worker with the
//! fewest connections. That worker serves the client as if it had accepted the client itself.
//!
//! ```text
//! accepted -> within the share ------------------------------> admitted here
//!    +------> over it -> handed over (a channel) -------------> admitted there
//!               +- channel full, or that worker ends: admitted here
//! ```
//!
//! A worker's connections are those at all its listeners, and those being handed to it. Their number is read without a
//! lock, so workers that accept at the same time may exceed the share by one each. Existing connections never move.
//!
//! An overloaded worker rejects requests, and therefore soon has the fewest connections. So no worker hands clients to
//! a lagging worker. A lagging worker hands over each client that it accepts, unless all other workers lag or are full.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::mpsc::{OwnedPermit, Receiver, Sender, channel};

/// At most this many clients may be in transit to one worker. At this limit, the worker gets no more clients.
const IN_TRANSIT_MAX: usize = 256;

/// A flag bit in `HandoffTarget::in_transit`, above the bits of the count. If it is set, the target accepts no more
/// clients.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The workers over which a listener's clients are distributed.
#[derive(Debug, Default)]
pub(crate) struct Spread(ArcSwap<Vec<Arc<HandoffTarget>>>);

/// A worker as the target of handovers for one listener.
#[derive(Debug)]
pub(crate) struct HandoffTarget {
    host: Host,
    in_transit: AtomicUsize,
}

/// A worker, as seen by the others.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    load: Arc<Load>,
    inbox: Sender<Handed>,
}

/// A worker's load, which the other workers read. Aligned to its own cache lines, because several workers write it for
/// each connection.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Load {
    connections: AtomicUsize,
    is_late: AtomicBool,
}

/// Counts a connection of a worker until it is dropped.
#[derive(Debug)]
pub(crate) struct HostSeat(Arc<Load>);

/// A reserved slot at another worker, for one client.
pub(crate) struct Handoff {
    room: OwnedPermit<Handed>,
    seat: HostSeat,
    in_transit: InTransit,
}

/// A client that another worker has accepted.
#[derive(Debug)]
pub(crate) struct Handed {
    /// The id of the listener that the client connected to.
    pub(crate) listening: u64,
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) seat: HostSeat,
    /// A guard: while it exists, the receiving worker keeps the listener.
    pub(crate) _in_transit: InTransit,
}

/// Counts a client in transit to a target, until this guard is dropped.
#[derive(Debug)]
pub(crate) struct InTransit(Arc<HandoffTarget>);

impl Spread {
    /// Allows other workers to hand clients to this target. The target's worker must already have the listener.
    pub(crate) fn open(&self, target: &Arc<HandoffTarget>) {
        self.0.rcu(|targets| {
            let mut targets = Vec::clone(targets);
            targets.push(Arc::clone(target));
            targets
        });
    }

    /// Stops handovers to this target. Clients that are already in transit still arrive.
    pub(crate) fn close(&self, target: &Arc<HandoffTarget>) {
        if target.in_transit.fetch_or(CLOSED, Ordering::Relaxed) & CLOSED == 0 {
            self.0.rcu(|targets| {
                let others = targets.iter().filter(|other| !Arc::ptr_eq(other, target));
                others.cloned().collect::<Vec<_>>()
            });
        }
    }

    /// Reserves a slot at another worker for a client that `host` has accepted. `None` if the client should stay, or
    /// if no worker can take it.
    pub(crate) fn reserve_elsewhere(&self, host: &Host) -> Option<Handoff> {
        let own = host.in_time();
        // A worker without connections keeps the client: no other worker can have fewer.
        if own == Some(0) {
            return None;
        }
        let targets = self.0.load();
        // Targets that cannot accept a client now.
        let mut full = Vec::new();
        loop {
            let loads = targets
                .iter()
                .enumerate()
                .map(|(n, target)| if full.contains(&n) { None } else { target.host.in_time() });
            let fewest = elsewhere(loads, own)?;
            match targets[fewest].reserve() {
                Some(handoff) => return Some(handoff),
                None => full.push(fewest),
            }
        }
    }
}

impl HandoffTarget {
    /// Creates the target for handovers to the worker `host`, for one listener.
    pub(crate) fn new(host: &Host) -> Arc<HandoffTarget> {
        Arc::new(HandoffTarget { host: host.clone(), in_transit: AtomicUsize::new(0) })
    }

    /// Reserves a slot at this worker. `None` if it can take no client.
    fn reserve(self: &Arc<Self>) -> Option<Handoff> {
        let in_transit = InTransit::begin(self)?;
        let room = self.host.inbox.clone().try_reserve_owned().ok()?;
        Some(Handoff { room, seat: self.host.seat(), in_transit })
    }

    /// Whether clients may still arrive at this worker.
    pub(crate) fn is_open(&self) -> bool {
        self.in_transit.load(Ordering::Relaxed) != CLOSED
    }
}

impl Host {
    /// Creates a worker without connections. Also returns the channel on which this worker receives clients from other
    /// workers.
    pub(crate) fn new() -> (Host, Receiver<Handed>) {
        let (inbox, handed) = channel(IN_TRANSIT_MAX);
        (Host { load: Arc::default(), inbox }, handed)
    }

    /// The worker's connections, including those in transit to it.
    pub(crate) fn connections(&self) -> usize {
        self.load.connections.load(Ordering::Relaxed)
    }

    /// The number of the worker's connections; `None` while the worker lags.
    fn in_time(&self) -> Option<usize> {
        (!self.load.is_late.load(Ordering::Relaxed)).then(|| self.connections())
    }

    /// Records whether the worker lags and therefore rejects requests.
    pub(crate) fn set_late(&self, is_late: bool) {
        if self.load.is_late.load(Ordering::Relaxed) != is_late {
            self.load.is_late.store(is_late, Ordering::Relaxed);
        }
    }

    /// Counts one more connection until the returned value is dropped.
    pub(crate) fn seat(&self) -> HostSeat {
        self.load.connections.fetch_add(1, Ordering::Relaxed);
        HostSeat(Arc::clone(&self.load))
    }
}

impl Drop for HostSeat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handoff {
    /// Sends a client of this listener to the other worker.
    pub(crate) fn send(self, listening: u64, stream: TcpStream, peer: SocketAddr) {
        let Handoff { room, seat, in_transit } = self;
        room.send(Handed { listening, stream, peer, seat, _in_transit: in_transit });
    }
}

impl InTransit {
    fn begin(target: &Arc<HandoffTarget>) -> Option<InTransit> {
        let entered = |count: usize| (count & CLOSED == 0).then_some(count + 1);
        target.in_transit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, entered).ok()?;
        Some(InTransit(Arc::clone(target)))
    }
}

impl Drop for InTransit {
    fn drop(&mut self) {
        self.0.in_transit.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Chooses the worker for the next client. `own` is the number of connections of the accepting worker, or `None` if
/// that worker lags. Returns the position of another worker, or `None` if the accepting worker keeps the client.
///
/// The accepting worker hands the client over if it would otherwise have more than 1.25 times the mean number of
/// connections. The other worker must have fewer connections, so that clients do not move back and forth. An accepting
/// worker that lags hands over every client. In `connections`, workers that lag or are full are `None`: they get no
/// clients and do not count toward the mean.
fn elsewhere(connections: impl Iterator<Item = Option<usize>>, own: Option<usize>) -> Option<usize> {
    let (mut workers, mut total, mut fewest) = (0, 0, (usize::MAX, 0));
    for (position, count) in connections.enumerate() {
        let Some(count) = count else { continue };
        workers += 1;
        total += count;
        fewest = fewest.min((count, position));
    }
    let Some(own) = own else { return (workers > 0).then_some(fewest.1) };
    // (own + 1) / ((total + 1) / workers) > 5 / 4
    let is_over = 4 * (own + 1) * workers > 5 * (total + 1);
    (is_over && fewest.0 < own).then_some(fewest.1)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn check(connections: &[usize], accepts: usize, expected: Option<usize>) {
        let serves = elsewhere(connections.iter().copied().map(Some), Some(connections[accepts]));
        assert_eq!(serves, expected, "{connections:?}, {accepts} accepts");
    }

    #[test]
    fn only_a_worker_over_its_share_hands_over() {
        check(&[0], 0, None);
        check(&[100], 0, None);
        check(&[0, 0], 1, None);
        check(&[1, 0], 0, Some(1));
        check(&[1, 0], 1, None);
        check(&[1, 1], 0, None);
        check(&[2, 1], 0, Some(1));
        check(&[19, 12], 0, None);
        check(&[20, 11], 0, Some(1));
        check(&[9, 9, 9, 4], 0, None);
        check(&[10, 9, 8, 4], 0, Some(3));
        check(&[10, 9, 8, 4], 1, None);
        check(&[1000, 990, 995, 1005], 3, None);
    }

    #[test]
    fn a_lagging_or_full_worker_gets_no_client() {
        let check = |connections: &[Option<usize>], own, expected| {
            assert_eq!(elsewhere(connections.iter().copied(), own), expected, "{connections:?}, {own:?}");
        };
        // The lagging worker does not count toward the mean. So a worker with 100 connections is at the mean, and keeps
        // the client.
        check(&[Some(100), Some(100), None, Some(100)], Some(100), None);
        check(&[Some(140), Some(100), None, Some(90)], Some(140), Some(3));
        check(&[Some(140), None, None], Some(140), None);
        // A lagging worker hands over its clients, however many connections it has.
        check(&[Some(100), Some(90), None], None, Some(1));
        check(&[None, None], None, None);
    }

    #[test]
    fn a_worker_that_cannot_take_a_client_is_skipped() {
        let (hosts, mut inboxes): (Vec<_>, Vec<_>) = (0..3).map(|_| Host::new()).unzip();
        let spread = Spread::default();
        hosts.iter().for_each(|host| spread.open(&HandoffTarget::new(host)));
        let _seats: Vec<_> = (0..10).map(|_| hosts[0].seat()).collect();
        let next = |expected: [usize; 2]| {
            let handoff = spread.reserve_elsewhere(&hosts[0]);
            let now = [hosts[1].connections(), hosts[2].connections()];
            assert_eq!((handoff.is_some(), now), (expected != [0, 0], expected));
        };
        next([1, 0]);
        inboxes.remove(1).close();
        next([0, 1]);
        hosts[2].set_late(true);
        next([0, 0]);
        hosts[2].set_late(false);
        next([0, 1]);
    }

    /// In any order of clients, no worker exceeds 1.25 times the mean, or the mean rounded up if that is larger.
    #[test]
    fn no_order_of_clients_gives_a_worker_more_than_its_share() {
        let mut random = fastrand::Rng::with_seed(1);
        for workers in 1..=16 {
            for bias in [1, 2, workers] {
                let mut connections = vec![0; workers];
                for total in 1..=300 {
                    let accepts = random.usize(..workers) / bias;
                    let loads = connections.iter().copied().map(Some);
                    let serves = elsewhere(loads, Some(connections[accepts]));
                    connections[serves.unwrap_or(accepts)] += 1;
                    let most = connections.iter().max().unwrap();
                    let allowed = (5 * total / (4 * workers)).max(total.div_ceil(workers));
                    assert!(*most <= allowed, "one of {workers} workers has {most} of {total} connections");
                }
            }
        }
    }

    fn client() -> (TcpStream, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = client.local_addr().unwrap();
        (client, peer)
    }

    /// Opens targets for these hosts, and returns the target of the second host.
    fn targets(spread: &Spread, hosts: [&Host; 2]) -> Arc<HandoffTarget> {
        let [first, second] = hosts.map(HandoffTarget::new);
        spread.open(&first);
        spread.open(&second);
        second
    }

    #[test]
    fn a_client_on_the_way_arrives_although_the_worker_ends() {
        let spread = Spread::default();
        let ((busy, _others), (idle, mut handed)) = (Host::new(), Host::new());
        let target = targets(&spread, [&busy, &idle]);
        let seat = busy.seat();
        let handoff = spread.reserve_elsewhere(&busy).unwrap();
        assert_eq!(
            (busy.connections(), idle.connections()),
            (1, 1),
            "the idle worker already counts the connection"
        );
        spread.close(&target);
        assert!(spread.reserve_elsewhere(&busy).is_none(), "a closed target gets no further client");
        assert!(target.is_open());
        let (stream, peer) = client();
        handoff.send(7, stream, peer);
        let arrived = handed.try_recv().unwrap();
        assert_eq!((arrived.listening, arrived.peer), (7, peer));
        assert!(target.is_open());
        drop((arrived, seat));
        assert!(!target.is_open());
        assert_eq!((busy.connections(), idle.connections()), (0, 0));
    }

    #[test]
    fn a_client_stays_if_the_channel_is_full() {
        let spread = Spread::default();
        let ((busy, _others), (idle, handed)) = (Host::new(), Host::new());
        let target = targets(&spread, [&busy, &idle]);
        let _seats: Vec<_> = (0..4 * IN_TRANSIT_MAX).map(|_| busy.seat()).collect();
        let ways: Vec<_> = std::iter::from_fn(|| spread.reserve_elsewhere(&busy)).collect();
        assert_eq!((ways.len(), idle.connections()), (IN_TRANSIT_MAX, IN_TRANSIT_MAX));
        drop(ways);
        assert_eq!(idle.connections(), 0);
        drop(handed);
        assert!(spread.reserve_elsewhere(&busy).is_none(), "a worker that has ended gets no client");
        spread.close(&target);
        assert!(!target.is_open(), "clients that stayed are not in transit");
    }
}
