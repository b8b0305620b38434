//! Measures how long a change takes from the table builder to every worker, as clients see it through sockets.
//!
//! `changes HOSTS PATHS WORKERS CHANGES` builds a table of HOSTS x PATHS routes and prints one line of JSON per change:
//! nanoseconds from the request for it until the table was built, was active, and had answered every client. Each
//! worker has at least two clients. `make bench` runs it.

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
/// Connections spread over the workers; after so many a worker without two of them is a fault.
const CLIENTS_MAX: usize = 256;
/// Between two requests of a client: the resolution of what is measured, without a load that is felt.
const PAUSE: Duration = Duration::from_micros(100);
/// Between two changes, and the longest that one is waited for.
const REST: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);

/// The route whose answer says which change was the last.
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
        client.join().map_err(|_| "a client ended by a panic")??;
    }
    gateway.drain();
    gateway.join();
    Ok(())
}

/// Routes of one host and one path each, behind the one that is watched.
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

/// A change of the route that is watched, and a route that comes with one change and goes with the next.
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
    let in_force = start.elapsed();
    let in_use = watch.wait(number)?.duration_since(start);
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    Ok(json!({
        "built_ns": nanoseconds(built),
        "in_force_ns": nanoseconds(in_force),
        "in_use_ns": nanoseconds(in_use),
    }))
}

/// What clients have seen.
#[derive(Debug, Default)]
struct Watch {
    /// By client: the last change, and when its first answer came.
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

    /// When the last of the clients saw this change.
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

/// Connects until each worker has its clients, and has them ask.
fn connect(gateway: &Gateway, watch: &Arc<Watch>) -> Outcome<Vec<std::thread::JoinHandle<Outcome<()>>>> {
    let address: SocketAddr = *gateway.addresses().first().ok_or("there is no listener")?;
    let mut streams = Vec::new();
    loop {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // Its worker has it once it answers.
        ask(&mut stream)?;
        streams.push(stream);
        if gateway.stats().workers.iter().all(|worker| worker.connections_open >= CLIENTS_A_WORKER) {
            break;
        }
        if streams.len() == CLIENTS_MAX {
            return Err(format!("of {CLIENTS_MAX} connections a worker has none").into());
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

/// Which change the gateway answers by.
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
