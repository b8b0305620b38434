//! Tests a coordinator and its agents over real connections. The loads of the agents are scripted.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_agent::agent::{Options, Progress, Work, run};
use weir_agent::{
    AgentError, AgentFailure, Authority, Coordinator, Hello, Look, Order, PROTOCOL, RoundFailure,
    SampleReport, SampleSpan, Sampling, Served, Serving, ShardReport, Ticket, read_files,
};
use weir_engine::{LoadSpec, RequestSpec};
use weir_results::{Part, Role};

const VERSION: &str = "1.2.3";
const PATIENCE: Duration = Duration::from_secs(60);

/// How the load of an agent behaves, and what the agent received.
#[derive(Default)]
struct Script {
    fails: bool,
    /// Start time of the load by the agent's clock, nanoseconds; `None` before the start.
    started_ns: Option<u64>,
    text: Option<String>,
    aborts: u32,
    /// Whether the load runs until the coordinator ends it early.
    is_endless: bool,
    is_ended: bool,
    is_done: bool,
    sampled: Option<SampleSpan>,
}

struct Scripted(Arc<Mutex<Script>>);

impl Work for Scripted {
    fn prepare(&mut self, spec: &LoadSpec) -> Result<(), AgentFailure> {
        let mut script = self.0.lock().unwrap();
        let file = spec.requests.iter().find_map(|request| request.path.split("{pick:").nth(1));
        script.text = file.map(|file| fs::read_to_string(file.trim_end_matches('}')).unwrap());
        match script.fails {
            true => Err(failure("the disk is full")),
            false => Ok(()),
        }
    }

    fn start(&mut self, at_ns: u64) -> Result<(), AgentFailure> {
        self.0.lock().unwrap().started_ns = Some(at_ns);
        Ok(())
    }

    fn look(&mut self) -> Result<Progress, AgentFailure> {
        let mut script = self.0.lock().unwrap();
        if script.started_ns.is_none() {
            return Ok(Progress::Prepared);
        }
        if script.is_endless && !script.is_ended {
            return Ok(Progress::Running(Vec::new()));
        }
        assert!(!std::mem::replace(&mut script.is_done, true), "a finished load is not checked again");
        Ok(Progress::Done(Vec::new(), Box::new(report())))
    }

    fn abort(&mut self) {
        self.0.lock().unwrap().aborts += 1;
    }

    fn sample(&mut self, sampling: &Sampling) -> Result<(), AgentFailure> {
        match &sampling.program {
            Some(_) => Ok(()),
            None => Err(AgentFailure::new("sampler", "there is no such process", "")),
        }
    }

    fn sampled(&mut self, span: SampleSpan) -> Result<SampleReport, AgentFailure> {
        self.0.lock().unwrap().sampled = Some(span);
        Ok(SampleReport { usage: None, seconds: Vec::new(), host: None })
    }

    fn serve(&mut self, at: IpAddr, serving: &Serving) -> Result<Served, AgentFailure> {
        let part = Part { name: serving.part.clone(), ..report().part };
        Ok(Served { address: (at, 80).into(), part, pid: 1 })
    }

    fn end_early(&mut self) {
        self.0.lock().unwrap().is_ended = true;
    }

    fn stop_serving(&mut self) {
        self.0.lock().unwrap().aborts += 1;
    }
}

fn failure(message: &str) -> AgentFailure {
    AgentFailure::new("disk-full", message, "")
}

/// A report with the record of a real load, whose connections are refused because nothing listens on the port.
fn report() -> ShardReport {
    let spec = LoadSpec {
        connect: "127.0.0.1:1".into(),
        requests: vec![RequestSpec::default()],
        connections: 1,
        workers: 1,
        duration_ns: Some(1_000_000),
        timeout_ns: 1_000_000_000,
        ..LoadSpec::default()
    };
    let record = weir_engine::run(&spec, &(), &AtomicBool::new(false)).unwrap();
    let part = Part {
        name: "generator".into(),
        role: Role::Generator,
        binary: String::new(),
        version: VERSION.into(),
        binary_sha256: String::new(),
        image: None,
        config_sha256: None,
        command: Vec::new(),
        limit_cpus: None,
        limit_memory_bytes: None,
        limits_applied: true,
        limited_by: "none".into(),
    };
    ShardReport { record, part, usage: None, host: None, others: None }
}

struct Bench {
    authority: Authority,
    coordinator: Coordinator,
    folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
}

impl Bench {
    fn new() -> Self {
        let authority = Authority::new("a-run").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let coordinator = Coordinator::start(listener, &authority, VERSION).unwrap();
        Self { authority, coordinator, folder: tempfile::tempdir().unwrap(), stop: Arc::default() }
    }

    fn agent(&self, name: &str, script: &Arc<Mutex<Script>>) -> JoinHandle<Result<(), AgentError>> {
        self.agent_of(name, script, self.authority.ticket().clone(), VERSION)
    }

    fn agent_of(
        &self,
        name: &str,
        script: &Arc<Mutex<Script>>,
        ticket: Ticket,
        version: &str,
    ) -> JoinHandle<Result<(), AgentError>> {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let dir = self.folder.path().join(FOLDERS.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&dir).unwrap();
        let hello = Hello {
            protocol: PROTOCOL,
            version: version.into(),
            name: name.into(),
            cpus: 2,
            pid: 1,
            ..Hello::default()
        };
        let options = Options { join: self.coordinator.address().to_string(), ticket, hello, dir };
        let (mut work, stop) = (Scripted(Arc::clone(script)), Arc::clone(&self.stop));
        thread::spawn(move || run(&options, &mut work, &stop))
    }

    fn await_agents(&self, count: usize) -> Vec<String> {
        let agents = self.coordinator.await_agents::<AgentError>(count, PATIENCE, &self.stop, || Ok(()));
        agents.unwrap().into_iter().map(|agent| agent.name).collect()
    }
}

fn order(names: &[String]) -> Order {
    let of = |name: &String| (name.clone(), LoadSpec::default());
    Order {
        specs: names.iter().map(of).collect(),
        files: Default::default(),
        longest: PATIENCE,
        end_early: Arc::default(),
    }
}

#[test]
fn agents_start_at_the_same_time_and_report() {
    let mut bench = Bench::new();
    let scripts: [Arc<Mutex<Script>>; 2] = Default::default();
    let agents = scripts.each_ref().map(|script| bench.agent("load", script));
    let names = bench.await_agents(2);
    assert_eq!(names, ["load", "load-2"], "two machines may have the same name");
    let mut starts = Vec::new();
    let measured = bench.coordinator.run::<RoundFailure>(order(&names), &mut |look| {
        if let Look::Starts(at_ns) = look {
            starts.push(at_ns);
        }
        Ok(())
    });
    let measured = measured.unwrap();
    assert_eq!(measured.iter().map(|of| &of.agent).collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
    let [planned_ns] = starts[..] else { panic!("{starts:?}") };
    for (script, of) in scripts.iter().zip(&measured) {
        assert_eq!(of.planned_start_ns, planned_ns);
        // Both sides have the same clock here, so the true offset is zero.
        assert!(of.clock.offset_ns.unsigned_abs() <= of.clock.bound_ns, "{:?}", of.clock);
        let started_ns = script.lock().unwrap().started_ns.unwrap();
        assert!(started_ns.abs_diff(planned_ns) <= 10_000_000, "{started_ns} is not near {planned_ns}");
    }
    drop(bench.coordinator);
    for agent in agents {
        agent.join().unwrap().unwrap();
    }
}

#[test]
fn a_load_that_ends_early_ends_on_all_agents_with_results() {
    let mut bench = Bench::new();
    let scripts: [Arc<Mutex<Script>>; 2] = Default::default();
    scripts.iter().for_each(|script| script.lock().unwrap().is_endless = true);
    let agents = scripts.each_ref().map(|script| bench.agent("load", script));
    let names = bench.await_agents(2);
    let end_early = Arc::<AtomicBool>::default();
    let order = Order { end_early: Arc::clone(&end_early), ..order(&names) };
    let measured = bench.coordinator.run::<RoundFailure>(order, &mut |look| {
        if let Look::Starts(_) = look {
            end_early.store(true, Ordering::Relaxed);
        }
        Ok(())
    });
    assert_eq!(measured.unwrap().len(), 2);
    drop(bench.coordinator);
    agents.into_iter().for_each(|agent| agent.join().unwrap().unwrap());
    assert!(scripts.iter().all(|script| script.lock().unwrap().is_ended));
}

#[test]
fn samples_cover_the_requested_span_or_the_reason_is_reported() {
    let mut bench = Bench::new();
    let script = Arc::<Mutex<Script>>::default();
    let agent = bench.agent("beside", &script);
    bench.await_agents(1);
    let span =
        SampleSpan { start_ns: 1_000_000_000_000, from_ns: 1_000_000_000_001, to_ns: 1_000_000_000_002 };
    let why = |error: AgentFailure| error.message;
    assert_eq!(why(bench.coordinator.sampled("nobody", span).unwrap_err()), "lost: it has never joined");
    assert_eq!(why(bench.coordinator.sampled("beside", span).unwrap_err()), "sampling has not started");
    bench.coordinator.sample("beside", &Sampling::default());
    assert_eq!(why(bench.coordinator.sampled("beside", span).unwrap_err()), "there is no such process");
    bench.coordinator.sample("beside", &Sampling { program: Some("nginx".into()), ..Sampling::default() });
    bench.coordinator.sampled("beside", span).unwrap();
    let asked = script.lock().unwrap().sampled.unwrap();
    assert_eq!(asked.to_ns - asked.start_ns, 2, "the clock of the agent differs by one offset");
    let served =
        bench.coordinator.serve("beside", Serving { part: "origin".into(), ..Serving::default() }).unwrap();
    assert_eq!((served.address, &served.part.name[..]), (([127, 0, 0, 1], 80).into(), "origin"));
    bench.stop.store(true, Ordering::Relaxed);
    agent.join().unwrap().unwrap();
    let gone = bench.coordinator.sampled("beside", span).unwrap_err().message;
    assert!(gone.starts_with("lost: "), "{gone}");
}

#[test]
fn a_failed_agent_ends_the_load_for_all_and_the_next_load_works() {
    let mut bench = Bench::new();
    let scripts: [Arc<Mutex<Script>>; 2] = Default::default();
    scripts[1].lock().unwrap().fails = true;
    let agents = [("good", &scripts[0]), ("bad", &scripts[1])].map(|(name, script)| {
        let agent = bench.agent(name, script);
        bench.await_agents(1);
        agent
    });
    let mut names = bench.await_agents(2);
    names.sort();
    let failure = bench.coordinator.run::<RoundFailure>(order(&names), &mut |_| Ok(())).unwrap_err();
    assert_eq!(failure.to_string(), "agent bad: the disk is full");
    scripts[1].lock().unwrap().fails = false;
    assert_eq!(bench.coordinator.run::<RoundFailure>(order(&names), &mut |_| Ok(())).unwrap().len(), 2);
    drop(bench.coordinator);
    agents.into_iter().for_each(|agent| agent.join().unwrap().unwrap());
    assert!(scripts[0].lock().unwrap().aborts > 0, "the other agent aborted its load");
}

#[test]
fn a_lost_agent_fails_the_load_and_is_named() {
    let mut bench = Bench::new();
    let script = Arc::default();
    let agent = bench.agent("lost", &script);
    let names = bench.await_agents(1);
    bench.stop.store(true, Ordering::Relaxed);
    agent.join().unwrap().unwrap();
    let failure = bench.coordinator.run::<RoundFailure>(order(&names), &mut |_| Ok(())).unwrap_err();
    assert_eq!((failure.agent.as_str(), failure.failure.cause.as_str()), ("lost", "lost"));
    assert!(bench.coordinator.agents().is_empty());
}

#[test]
fn strangers_and_other_versions_are_rejected_with_a_remedy() {
    let bench = Bench::new();
    let script = Arc::default();
    let other = bench.agent_of("old", &script, bench.authority.ticket().clone(), "1.2.2");
    let error = other.join().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the coordinator rejected this agent: the agent runs weir 1.2.2, but the run uses weir 1.2.3"
    );
    assert_eq!(error.remedy(), "install weir 1.2.3 on old");

    let stranger = Authority::new("another-run").unwrap();
    let stranger = bench.agent_of("stranger", &script, stranger.ticket().clone(), VERSION);
    assert!(matches!(stranger.join().unwrap().unwrap_err(), AgentError::Join { .. }));

    // A client with another protocol is rejected, and does no harm.
    let mut stream = std::net::TcpStream::connect(bench.coordinator.address()).unwrap();
    std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let missing =
        bench.coordinator.await_agents::<AgentError>(1, Duration::from_secs(1), &bench.stop, || Ok(()));
    let missing = missing.unwrap_err().to_string();
    assert!(missing.starts_with("0 of 1 agents joined within 1 s; last rejected connection: "), "{missing}");
}

#[test]
fn an_agent_gets_the_files_of_its_load() {
    let mut bench = Bench::new();
    let script = Arc::default();
    let agent = bench.agent("one", &script);
    let names = bench.await_agents(1);
    let path = bench.folder.path().join("names.txt");
    fs::write(&path, "red\ngreen\n").unwrap();
    let request = RequestSpec { path: format!("/{{pick:{}}}", path.display()), ..RequestSpec::default() };
    let mut spec = LoadSpec { requests: vec![request], ..LoadSpec::default() };
    let files = read_files(&mut spec).unwrap();
    let order =
        Order { specs: vec![(names[0].clone(), spec)], files, longest: PATIENCE, end_early: Arc::default() };
    bench.coordinator.run::<RoundFailure>(order, &mut |_| Ok(())).unwrap();
    assert_eq!(script.lock().unwrap().text.as_deref(), Some("red\ngreen\n"));
    drop(bench.coordinator);
    agent.join().unwrap().unwrap();
}
