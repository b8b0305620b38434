//! How the clients of a listener spread over the workers that accept them.
//!
//! The kernel deals clients out by a hash of their addresses, and so by chance: of a few that stay for long, one worker
//! may get twice as many as another. So a worker that would come to over 1.25 of the mean hands its next client to the
//! worker that has fewest, which serves it as if it had accepted it.
//!
//! ```text
//! accepted -> within the share ------------------------------> admitted here
//!    +------> over it -> on the way (a channel) --------------> admitted there
//!               +- no room on the way, or that worker ends: admitted here
//! ```
//!
//! A worker's connections are those at all its listeners, and those on their way to it. They are read without a lock,
//! so workers that accept at one moment may go over by one each. Connections that are there stay where they are.
//!
//! A worker that turns requests away because it comes round late soon has the fewest connections of all: it is handed
//! nobody, and hands on whom it accepts, as long as any other is in time.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::mpsc::{OwnedPermit, Receiver, Sender, channel};

/// Clients on their way to one worker. One that does not look at them for long is not given more.
const ON_THE_WAY_MAX: usize = 256;

/// Beside the count of those on the way: nobody else sets out.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The workers that a listener's clients spread over.
#[derive(Debug, Default)]
pub(crate) struct Spread(ArcSwap<Vec<Arc<Berth>>>);

/// A worker's place among those of one listener.
#[derive(Debug)]
pub(crate) struct Berth {
    host: Host,
    on_the_way: AtomicUsize,
}

/// A worker as the others see it.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    load: Arc<Load>,
    inbox: Sender<Handed>,
}

/// On cache lines of its own: it is written for each connection, by more than one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Load {
    connections: AtomicUsize,
    is_late: AtomicBool,
}

/// A place among the connections of a worker, given up when dropped.
#[derive(Debug)]
pub(crate) struct HostSeat(Arc<Load>);

/// The way to another worker, on which there is room for one client.
pub(crate) struct Way {
    room: OwnedPermit<Handed>,
    seat: HostSeat,
    passage: Passage,
}

/// A client that another worker has accepted.
#[derive(Debug)]
pub(crate) struct Handed {
    /// By which workers know its listener.
    pub(crate) listening: u64,
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) seat: HostSeat,
    /// Until it is dropped the worker that it is handed to has the listener.
    pub(crate) _passage: Passage,
}

/// One of those on the way to a berth, as long as it is there.
#[derive(Debug)]
pub(crate) struct Passage(Arc<Berth>);

impl Spread {
    /// From here on clients are handed to this worker, which has been told of the listener.
    pub(crate) fn open(&self, berth: &Arc<Berth>) {
        self.0.rcu(|berths| {
            let mut berths = Vec::clone(berths);
            berths.push(Arc::clone(berth));
            berths
        });
    }

    /// Nobody is handed to this worker any more, but for those on the way.
    pub(crate) fn close(&self, berth: &Arc<Berth>) {
        if berth.on_the_way.fetch_or(CLOSED, Ordering::Relaxed) & CLOSED == 0 {
            self.0.rcu(|berths| {
                let others = berths.iter().filter(|other| !Arc::ptr_eq(other, berth));
                others.cloned().collect::<Vec<_>>()
            });
        }
    }

    /// The way for a client that `host` has accepted; `None` where it should stay, or has to.
    pub(crate) fn way_from(&self, host: &Host) -> Option<Way> {
        let own = host.in_time();
        // Nobody has fewer.
        if own == Some(0) {
            return None;
        }
        let berths = self.0.load();
        // Those that can take nobody now.
        let mut full = Vec::new();
        loop {
            let loads = berths
                .iter()
                .enumerate()
                .map(|(position, berth)| if full.contains(&position) { None } else { berth.host.in_time() });
            let fewest = elsewhere(loads, own)?;
            match berths[fewest].way() {
                Some(way) => return Some(way),
                None => full.push(fewest),
            }
        }
    }
}

impl Berth {
    /// That of this worker at a listener.
    pub(crate) fn new(host: &Host) -> Arc<Berth> {
        Arc::new(Berth { host: host.clone(), on_the_way: AtomicUsize::new(0) })
    }

    /// The way to it; `None` where it takes nobody.
    fn way(self: &Arc<Self>) -> Option<Way> {
        let passage = Passage::enter(self)?;
        let room = self.host.inbox.clone().try_reserve_owned().ok()?;
        Some(Way { room, seat: self.host.seat(), passage })
    }

    /// Whether somebody may still be handed to this worker.
    pub(crate) fn is_open(&self) -> bool {
        self.on_the_way.load(Ordering::Relaxed) != CLOSED
    }
}

impl Host {
    /// A worker without connections, and where those come out that are handed to it.
    pub(crate) fn new() -> (Host, Receiver<Handed>) {
        let (inbox, handed) = channel(ON_THE_WAY_MAX);
        (Host { load: Arc::default(), inbox }, handed)
    }

    /// Connections that it has, or soon has.
    pub(crate) fn connections(&self) -> usize {
        self.load.connections.load(Ordering::Relaxed)
    }

    /// The same, where it does not come round late.
    fn in_time(&self) -> Option<usize> {
        (!self.load.is_late.load(Ordering::Relaxed)).then(|| self.connections())
    }

    /// Says whether it turns requests away because it comes round late.
    pub(crate) fn set_late(&self, is_late: bool) {
        if self.load.is_late.load(Ordering::Relaxed) != is_late {
            self.load.is_late.store(is_late, Ordering::Relaxed);
        }
    }

    /// A place among them.
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

impl Way {
    /// Sends a client of this listener.
    pub(crate) fn send(self, listening: u64, stream: TcpStream, peer: SocketAddr) {
        let Way { room, seat, passage } = self;
        room.send(Handed { listening, stream, peer, seat, _passage: passage });
    }
}

impl Passage {
    fn enter(berth: &Arc<Berth>) -> Option<Passage> {
        let entered = |count: usize| (count & CLOSED == 0).then_some(count + 1);
        berth.on_the_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, entered).ok()?;
        Some(Passage(Arc::clone(berth)))
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.0.on_the_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Which of the workers with so many connections has fewest, where the one with `own` would have over 1.25 of the mean
/// by one more. As nobody is handed to a worker that has as many, single ones are not passed to and fro. Without a
/// number are those that are late or full, which neither count nor are chosen; one that is late itself goes by no share.
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
    fn only_who_has_more_than_a_share_hands_over() {
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
    fn who_is_late_or_full_gets_nobody() {
        let check = |connections: &[Option<usize>], own, expected| {
            assert_eq!(elsewhere(connections.iter().copied(), own), expected, "{connections:?}, {own:?}");
        };
        // The late one has none any more; of the others none is over its share.
        check(&[Some(100), Some(100), None, Some(100)], Some(100), None);
        check(&[Some(140), Some(100), None, Some(90)], Some(140), Some(3));
        check(&[Some(140), None, None], Some(140), None);
        // One that is late hands on whom it accepts, whatever it has itself.
        check(&[Some(100), Some(90), None], None, Some(1));
        check(&[None, None], None, None);
    }

    #[test]
    fn who_cannot_take_a_client_is_passed_over() {
        let (hosts, mut inboxes): (Vec<_>, Vec<_>) = (0..3).map(|_| Host::new()).unzip();
        let spread = Spread::default();
        hosts.iter().for_each(|host| spread.open(&Berth::new(host)));
        let _seats: Vec<_> = (0..10).map(|_| hosts[0].seat()).collect();
        let next = |expected: [usize; 2]| {
            let way = spread.way_from(&hosts[0]);
            let now = [hosts[1].connections(), hosts[2].connections()];
            assert_eq!((way.is_some(), now), (expected != [0, 0], expected));
        };
        next([1, 0]);
        inboxes.remove(1).close();
        next([0, 1]);
        hosts[2].set_late(true);
        next([0, 0]);
        hosts[2].set_late(false);
        next([0, 1]);
    }

    /// Whoever accepts, in whatever order: nobody has over 1.25 of the mean, or over the mean rounded up.
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
                    assert!(*most <= allowed, "{most} of {total} at one of {workers}");
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

    /// Opens berths for these; that of the second.
    fn berths(spread: &Spread, hosts: [&Host; 2]) -> Arc<Berth> {
        let [first, second] = hosts.map(Berth::new);
        spread.open(&first);
        spread.open(&second);
        second
    }

    #[test]
    fn who_is_on_the_way_arrives_though_the_worker_ends() {
        let spread = Spread::default();
        let ((busy, _others), (idle, mut handed)) = (Host::new(), Host::new());
        let berth = berths(&spread, [&busy, &idle]);
        let seat = busy.seat();
        let way = spread.way_from(&busy).unwrap();
        assert_eq!((busy.connections(), idle.connections()), (1, 1), "there it counts from here on");
        spread.close(&berth);
        assert!(spread.way_from(&busy).is_none(), "nobody else sets out");
        assert!(berth.is_open());
        let (stream, peer) = client();
        way.send(7, stream, peer);
        let arrived = handed.try_recv().unwrap();
        assert_eq!((arrived.listening, arrived.peer), (7, peer));
        assert!(berth.is_open());
        drop((arrived, seat));
        assert!(!berth.is_open());
        assert_eq!((busy.connections(), idle.connections()), (0, 0));
    }

    #[test]
    fn who_finds_no_room_stays() {
        let spread = Spread::default();
        let ((busy, _others), (idle, handed)) = (Host::new(), Host::new());
        let berth = berths(&spread, [&busy, &idle]);
        let _seats: Vec<_> = (0..4 * ON_THE_WAY_MAX).map(|_| busy.seat()).collect();
        let ways: Vec<_> = std::iter::from_fn(|| spread.way_from(&busy)).collect();
        assert_eq!((ways.len(), idle.connections()), (ON_THE_WAY_MAX, ON_THE_WAY_MAX));
        drop(ways);
        assert_eq!(idle.connections(), 0);
        drop(handed);
        assert!(spread.way_from(&busy).is_none(), "a worker that has ended gets nobody");
        spread.close(&berth);
        assert!(!berth.is_open(), "who stayed is not on the way");
    }
}
