//! Silent connections: a burst of TCP connections that never send a request. A separate thread opens, watches and
//! closes them, because a gateway can be slow to accept them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use weir_document::Time;
use weir_io::{Poll, Socket};
use weir_results::{Event, Measurement, SilentBurst};
use weir_rig::{Namespace, mono_ns};

use super::{Disturbance, Gateway, LoadContext, UnusableCounters};
use crate::cell::error::{CellError, failed};
use crate::clock::LoadClock;
use crate::scenario::SilentConnections;

/// How often the thread checks the connections.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The file with the range of local ports of the network namespace.
const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Number of open files that this process needs in addition to the connections.
const FILES_BESIDE: u64 = 256;

/// The silent connections of a scenario.
struct Silent {
    connections: SilentConnections,
    address: SocketAddr,
    network: Option<Namespace>,
    state: State,
}

enum State {
    /// The burst is not due yet.
    Waiting,
    Open(Worker),
    Closed(Box<Burst>),
}

/// The thread that holds the connections.
struct Worker {
    is_ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<Burst, CellError>>,
}

/// When the burst began, by the monotonic clock, and what happened to its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Burst {
    at_ns: u64,
    outcome: SilentBurst,
}

pub(super) fn prepare(gateway: &Gateway<'_>) -> Result<Option<Box<dyn Disturbance>>, CellError> {
    let Some(connections) = gateway.scenario.silent.clone() else { return Ok(None) };
    require_open_files(connections.connections)?;
    let (address, network) = (gateway.listener.connect, gateway.generator.cloned());
    let of_loads = gateway.scenario.loads.iter().filter(|(name, _)| connections.concerns(name));
    let of_loads = of_loads.map(|(_, load)| load.connections.greatest()).max().unwrap_or(0);
    require_ports(connections.connections, of_loads, network.as_ref())?;
    Ok(Some(Box::new(Silent { connections, address, network, state: State::Waiting })))
}

/// Raises this process's limit of open files if `connections` need it. Fails if the limit is still too low.
fn require_open_files(connections: u32) -> Result<(), CellError> {
    let needed = u64::from(connections) + FILES_BESIDE;
    let limit = || getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if limit() < needed {
        weir_io::raise_open_files();
    }
    match limit() {
        limit if limit < needed => {
            let message = format!(
                "{connections} silent connections need {needed} open files, but the limit of this process is {limit}"
            );
            let remedy = "use fewer `silent.connections`, or raise the hard limit (`ulimit -Hn`)";
            Err(failed("generator", &message, remedy, ""))
        }
        _ => Ok(()),
    }
}

/// Checks that this host has a local port for each silent connection and each connection of the load. All of these
/// connections go to the same address, so each needs its own port.
fn require_ports(silent: u32, of_load: u32, network: Option<&Namespace>) -> Result<(), CellError> {
    let read = || std::fs::read_to_string(PORT_RANGE);
    let range = match network {
        Some(network) => network.within(read).and_then(|range| range),
        None => read(),
    };
    // If the range cannot be read, there is nothing to check.
    let Some([first, last]) = range.ok().as_deref().and_then(port_range) else { return Ok(()) };
    let (ports, needed) = (u64::from(last - first) + 1, u64::from(silent) + u64::from(of_load));
    if needed <= ports {
        return Ok(());
    }
    let message = format!(
        "{silent} silent connections and {of_load} connections of the load need {needed} local ports, but this host has \
         {ports} ({first} to {last})"
    );
    let remedy = "use fewer `silent.connections`, or widen `net.ipv4.ip_local_port_range`";
    Err(failed("generator", &message, remedy, ""))
}

/// Reads the kernel's range of local ports: `32768\t60999`.
fn port_range(text: &str) -> Option<[u16; 2]> {
    let mut ports = text.split_whitespace().map_while(|port| port.parse().ok());
    let [first, last] = [ports.next()?, ports.next()?];
    (first <= last).then_some([first, last])
}

impl Disturbance for Silent {
    fn applies_to(&self, load: &str) -> bool {
        self.connections.concerns(load)
    }

    fn unusable_counters(&self) -> UnusableCounters {
        // Some gateways count a connection that times out without a request as a request with status 408.
        UnusableCounters { gateway: true, ..UnusableCounters::default() }
    }

    fn is_unsteady(&self) -> bool {
        true
    }

    fn start(&mut self, _: &mut LoadContext<'_>) -> Result<(), CellError> {
        self.state = State::Waiting;
        Ok(())
    }

    fn poll(
        &mut self,
        _: &mut LoadContext<'_>,
        sustained_at: Instant,
    ) -> Result<Option<Duration>, CellError> {
        if !matches!(self.state, State::Waiting) {
            return Ok(None);
        }
        let until = (sustained_at + self.connections.at.0).saturating_duration_since(Instant::now());
        if !until.is_zero() {
            return Ok(Some(until));
        }
        self.state = State::Open(self.open());
        Ok(None)
    }

    fn undo(&mut self, _: &mut LoadContext<'_>) -> Result<(), CellError> {
        if let State::Open(worker) = std::mem::replace(&mut self.state, State::Waiting) {
            self.state = State::Closed(Box::new(worker.end()?));
        }
        Ok(())
    }

    fn abandon(&mut self) {
        if let State::Open(worker) = std::mem::replace(&mut self.state, State::Waiting) {
            // An error of the thread does not matter: the load has already failed for another reason.
            let _ = worker.end();
        }
    }

    fn record(&self, clock: &LoadClock, measurement: &mut Measurement) {
        let State::Closed(burst) = &self.state else { return };
        let (t_s, sustained) = clock.moment(burst.at_ns);
        let details = serde_json::to_value(burst.outcome).expect("counts always serialize to JSON");
        measurement.events.push(Event { t_s, sustained, kind: SilentBurst::KIND.into(), details });
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl Silent {
    fn open(&self) -> Worker {
        let is_ended = Arc::new(AtomicBool::new(false));
        let (flag, network, address) = (Arc::clone(&is_ended), self.network.clone(), self.address);
        let (count, hold) = (self.connections.connections, self.connections.hold.0);
        let thread = thread::spawn(move || {
            let burst = || hold_burst(address, count, hold, &flag);
            let held = match &network {
                Some(network) => network.within(burst).and_then(|held| held),
                None => burst(),
            };
            held.map_err(|error| {
                let message = format!("cannot open {count} silent connections to {address}: {error}");
                let remedy = "use fewer `silent.connections`, or widen `net.ipv4.ip_local_port_range`";
                failed("generator", &message, remedy, "")
            })
        });
        Worker { is_ended, thread }
    }
}

impl Worker {
    /// Closes the connections, if they are still open.
    fn end(self) -> Result<Burst, CellError> {
        self.is_ended.store(true, Ordering::Relaxed);
        self.thread.join().expect("the thread that holds the silent connections does not panic")
    }
}

/// A connection of a burst that is not yet refused or closed.
enum Connection {
    Connecting(Socket),
    Open(Socket),
}

/// Opens `count` connections at once, and closes them after `hold` or when `is_ended` is set.
///
/// # Errors
/// If this host has no port, memory or descriptor for another connection.
fn hold_burst(
    address: SocketAddr,
    count: u32,
    hold: Duration,
    is_ended: &AtomicBool,
) -> std::io::Result<Burst> {
    let (at_ns, began) = (mono_ns(), Instant::now());
    let mut outcome = SilentBurst { connections: count, ..SilentBurst::default() };
    let mut poll = Poll::new()?;
    let mut connections: Vec<Option<Connection>> = Vec::with_capacity(count as usize);
    let is_over = || is_ended.load(Ordering::Relaxed) || began.elapsed() >= hold;
    for token in 0..count {
        if is_over() {
            break;
        }
        let socket = match weir_io::connect(&address.into()) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                outcome.refused += 1;
                connections.push(None);
                continue;
            }
            socket => socket?,
        };
        poll.add_socket(&socket, token.into())?;
        connections.push(Some(Connection::Connecting(socket)));
    }
    loop {
        while let ready @ 1.. = poll.now() {
            for readiness in (0..ready).map(|place| poll.readiness(place)) {
                let connection = &mut connections[readiness.token as usize];
                *connection = connection
                    .take()
                    .and_then(|one| advance(one, &mut outcome, || Time(began.elapsed()).as_ns()));
            }
        }
        if is_over() {
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    outcome.held_ns = Time(began.elapsed()).as_ns();
    outcome.unanswered = count - outcome.opened - outcome.refused;
    Ok(Burst { at_ns, outcome })
}

/// The next state of a connection after an event; `None` if the connection was refused or closed.
fn advance(
    connection: Connection,
    outcome: &mut SilentBurst,
    since_ns: impl Fn() -> u64,
) -> Option<Connection> {
    let socket = match connection {
        Connection::Open(socket) => socket,
        Connection::Connecting(socket) => {
            match socket.take_error() {
                Ok(None) if socket.peer_addr().is_ok() => {}
                // A spurious event of a socket that is still connecting.
                Ok(None) => return Some(Connection::Connecting(socket)),
                _ => {
                    outcome.refused += 1;
                    return None;
                }
            }
            outcome.opened += 1;
            outcome.opened_after_ns = since_ns();
            socket
        }
    };
    // A gateway can send a response before it closes the connection.
    let mut said = [0; 1024];
    loop {
        match std::io::Read::read(&mut &socket, &mut said) {
            Ok(1..) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Some(Connection::Open(socket));
            }
            Ok(0) | Err(_) => {
                outcome.closed_by_gateway += 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    fn held(address: SocketAddr, count: u32, hold: Duration) -> SilentBurst {
        hold_burst(address, count, hold, &AtomicBool::new(false)).unwrap().outcome
    }

    #[test]
    fn a_burst_is_opened_held_and_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // The server closes connections 1, 3, 5 and so on, counted from 0. On connection 1, it sends a response first.
        let server = thread::spawn(move || {
            let mut kept = Vec::new();
            for place in 0..20 {
                let (mut socket, _) = listener.accept().unwrap();
                match place {
                    1 => socket.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").unwrap(),
                    place if place % 2 == 1 => {}
                    _ => kept.push(socket),
                }
            }
            // The server keeps the other connections open until the burst closes them.
            kept.into_iter()
                .map(|mut socket| std::io::Read::read(&mut socket, &mut [0]).unwrap())
                .sum::<usize>()
        });
        let hold = Duration::from_millis(500);
        let outcome = held(address, 20, hold);
        assert_eq!(server.join().unwrap(), 0, "a silent connection never sends a byte");
        let SilentBurst { opened_after_ns, held_ns, .. } = outcome;
        let expected =
            SilentBurst { connections: 20, opened: 20, closed_by_gateway: 10, ..SilentBurst::default() };
        assert_eq!(SilentBurst { opened_after_ns: 0, held_ns: 0, ..outcome }, expected);
        assert!(opened_after_ns <= held_ns && held_ns >= Time(hold).as_ns(), "{outcome:?}");
    }

    #[test]
    fn a_burst_with_more_connections_than_ports_is_rejected() {
        let range = port_range(&std::fs::read_to_string(PORT_RANGE).unwrap()).unwrap();
        let ports = u32::from(range[1] - range[0]) + 1;
        assert!(require_ports(ports - 10, 10, None).is_ok());
        let error = require_ports(ports - 10, 11, None).unwrap_err();
        assert!(format!("{error:?}").contains("local ports"), "{error:?}");
        assert_eq!(port_range("32768\t60999\n"), Some([32768, 60999]));
        assert_eq!(port_range("60999 32768"), None);
    }

    #[test]
    fn attempts_without_a_listener_are_refused() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let outcome = held(address, 5, Duration::from_millis(100));
        assert_eq!((outcome.opened, outcome.refused, outcome.unanswered), (0, 5, 0));
    }

    #[test]
    fn a_burst_ends_with_its_load() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, is_ended) = (listener.local_addr().unwrap(), AtomicBool::new(true));
        let outcome = hold_burst(address, 5, Duration::from_secs(3_600), &is_ended).unwrap().outcome;
        assert_eq!((outcome.opened, outcome.unanswered), (0, 5));
    }

    #[test]
    fn the_limit_of_open_files_is_named() {
        assert!(require_open_files(1).is_ok());
        let Err(CellError::Failed(outcome)) = require_open_files(u32::MAX) else { return };
        let text = format!("{outcome:?}");
        assert!(text.contains("4294967295 silent connections need 4294967551 open files"), "{text}");
    }
}
