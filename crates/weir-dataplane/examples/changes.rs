//! Measures the time from a configuration change until every worker uses the new table, as clients see it through
//! sockets.
//!
//! `changes HOSTS PATHS WORKERS CHANGES` builds a table of HOSTS x PATHS routes and prints one line of JSON per change.
//! Each line has three durations in nanoseconds, measured from the start of the change: until the new table is built,
//! until it is active, and until every client has received a response from it. Each worker has at least two clients.
//! `make bench` runs this example.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_config::{Batch, Change, Configuration, Key, Policy, Resource, Route, State};
use weir_dataplane::Gateway;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CLIENTS_A_WORKER: u64 = 2;
/// Maximum number of connections. The kernel spreads them over the workers. If a worker then has fewer than two
/// connections, the example fails.
const CLIENTS_MAX: usize = 256;
/// Pause between two requests of a client. It is the resolution of the measurement, and long enough not to load the
/// gateway.
const PAUSE: Duration = Duration::from_micros(100);
/// `REST` is the pause between two changes, `PATIENCE` the time limit for one change to reach all clients.
const REST: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);

/// Requests the route whose response contains the number of the last change.
const WATCHED: &str = "GET /watched HTTP/1.1\r\nHost: watched.test\r\n\r\n";

fn main() -> Outcome<()> {
    let arguments: Vec<u64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let &[hosts, paths, workers, changes] = arguments.as_slice() else {
        return Err("four numbers are needed: HOSTS PATHS WORKERS CHANGES".into());
    };
    let mut state = State::default();
    let resources = configuration(hosts, paths, workers)?.into_resources();
    let all = resources.into_iter().map(|(key, resource)| Change::Put(key, resource)).collect();
    let applied = state.apply(Batch { version: 0, policy: Policy::AllOrNothing, changes: all });
    let gateway = Gateway::start(applied.table.ok_or_else(|| format!("{:?}", applied.refused))?)?;
    let watch = Arc::new(Watch::default());
    let clients = connect(&gateway, &watch)?;
    for number in 1..=changes {
        std::thread::sleep(REST);
        println!("{}", measure(number, &mut state, &gateway, &watch)?);
    }
    watch.is_over.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().map_err(|_| "a client thread panicked")??;
    }
    gateway.drain();
    gateway.join();
    Ok(())
}

/// The watched route, then `hosts` x `paths` further routes with one host and one path each.
fn configuration(hosts: u64, paths: u64, workers: u64) -> Outcome<Configuration> {
    let mut routes = vec![serde_json::to_value(watched(0)?)?];
    for host in 0..hosts {
        let route = |path: u64| json!({ "hosts": [format!("h{host}.test")], "exact": format!("/p{path}"), "backend": "b" });
        routes.extend((0..paths).map(route));
    }
    let configuration = json!({
        "listeners": [{ "address": "127.0.0.1:0" }],
        "workers": workers,
        "drain": { "delay": "0s" },
        "routes": routes,
        "backends": { "b": { "endpoints": ["127.0.0.1:9"] } },
    });
    Ok(serde_json::from_value(configuration)?)
}

fn watched(number: u64) -> Outcome<Route> {
    let number = format!("{number:08}");
    let route = json!({ "hosts": ["watched.test"], "exact": "/watched", "respond": { "body": number } });
    Ok(serde_json::from_value(route)?)
}

/// Changes the watched route, and adds a second route (odd numbers) or removes it again (even numbers).
fn change(number: u64) -> Outcome<Vec<Change>> {
    let key = Key::Route("routes[0]".to_owned());
    let other = Key::Route("passing".to_owned());
    let passing = json!({ "hosts": ["passing.test"], "path": "/", "backend": "b" });
    let second = match number % 2 {
        0 => Change::Remove(other),
        _ => Change::Put(other, Resource::Route(Arc::new(serde_json::from_value(passing)?))),
    };
    Ok(vec![Change::Put(key, Resource::Route(Arc::new(watched(number)?))), second])
}

fn measure(number: u64, state: &mut State, gateway: &Gateway, watch: &Watch) -> Outcome<Value> {
    let batch = Batch { version: number, policy: Policy::EachAlone, changes: change(number)? };
    let start = Instant::now();
    let applied = state.apply(batch);
    let built = start.elapsed();
    gateway.apply(applied.table.ok_or_else(|| format!("{:?}", applied.refused))?)?;
    let handed_over = start.elapsed();
    let in_use = watch.wait(number)?.duration_since(start);
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    Ok(json!({
        "built_ns": nanoseconds(built),
        "handed_over_ns": nanoseconds(handed_over),
        "in_use_ns": nanoseconds(in_use),
    }))
}

/// Which change each client has seen last.
#[derive(Debug, Default)]
struct Watch {
    /// For each client: the number of the last change that it saw, and when the first response with that number
    /// arrived.
    seen: Mutex<Vec<(u64, Option<Instant>)>>,
    is_over: AtomicBool,
}

impl Watch {
    fn note(&self, client: usize, number: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen[client].0 != number {
            seen[client] = (number, Some(Instant::now()));
        }
    }

    /// Waits until all clients have seen this change. Returns the time at which the last client saw it.
    fn wait(&self, number: u64) -> Outcome<Instant> {
        let given_up = Instant::now() + PATIENCE;
        while Instant::now() < given_up {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.iter().all(|(last, _)| *last == number)
                && let Some(latest) = seen.iter().filter_map(|(_, at)| *at).max()
            {
                return Ok(latest);
            }
            drop(seen);
            std::thread::sleep(PAUSE);
        }
        Err(format!("change {number} has not reached every client").into())
    }
}

/// Opens connections until each worker has at least [`CLIENTS_A_WORKER`] of them. Each client then sends requests on a
/// thread of its own.
fn connect(gateway: &Gateway, watch: &Arc<Watch>) -> Outcome<Vec<std::thread::JoinHandle<Outcome<()>>>> {
    let address: SocketAddr = *gateway.addresses().first().ok_or("there is no listener")?;
    let mut streams = Vec::new();
    loop {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // Once the gateway responds, a worker has admitted the connection and counts it.
        ask(&mut stream)?;
        streams.push(stream);
        if gateway.stats().workers.iter().all(|worker| worker.connections_open >= CLIENTS_A_WORKER) {
            break;
        }
        if streams.len() == CLIENTS_MAX {
            return Err(format!(
                "after {CLIENTS_MAX} connections, at least one worker still has fewer than two"
            )
            .into());
        }
    }
    watch.seen.lock().unwrap_or_else(PoisonError::into_inner).resize(streams.len(), (0, None));
    let client = |(client, mut stream): (usize, TcpStream)| {
        let watch = Arc::clone(watch);
        std::thread::spawn(move || -> Outcome<()> {
            while !watch.is_over.load(Ordering::Relaxed) {
                watch.note(client, ask(&mut stream)?);
                std::thread::sleep(PAUSE);
            }
            Ok(())
        })
    };
    Ok(streams.into_iter().enumerate().map(client).collect())
}

/// Sends one request. Returns the number of the change that the response contains.
fn ask(stream: &mut TcpStream) -> Outcome<u64> {
    stream.write_all(WATCHED.as_bytes())?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Err("the gateway closed".into());
        }
        bytes.extend_from_slice(&chunk[..read]);
        let text = std::str::from_utf8(&bytes)?;
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && body.len() == 8
        {
            return if head.starts_with("HTTP/1.1 200 ") { Ok(body.parse()?) } else { Err(head.into()) };
        }
    }
}
