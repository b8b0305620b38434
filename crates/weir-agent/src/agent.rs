//! The agent: joins a run, prepares and starts its shard of each load, and reports the result.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::ServerName;
use tokio::io::WriteHalf;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weir_engine::{LiveSecond, LoadSpec};
use weir_io::mono_ns;

use crate::files::{is_name_of, place_files};
use crate::link::{self, Incoming, SILENCE_MAX, Silence};
use crate::message::{
    AgentFailure, Assignment, FromAgent, Hello, SampleReport, SampleSpan, Sampling, Served, Serving,
    ShardReport, ToAgent,
};
use crate::{AgentError, Ticket};

/// How long an agent tries to reach the coordinator, because the agent may start before the run.
const JOIN_MAX: Duration = Duration::from_secs(30);
const JOIN_EVERY: Duration = Duration::from_millis(200);

/// Time limit for one attempt to connect, and for the handshake.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How often the agent checks its state: `LOOK_EVERY` while a load runs, `IDLE_EVERY` while none runs.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const IDLE_EVERY: Duration = Duration::from_millis(100);

/// Options of an agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// `HOST:PORT` of the coordinator.
    pub join: String,
    /// The ticket of the run, which authenticates the agent.
    pub ticket: Ticket,
    /// What the agent sends about itself when it joins.
    pub hello: Hello,
    /// A folder only for the files of loads.
    pub dir: PathBuf,
}

/// State of a load.
#[derive(Debug)]
pub enum Progress {
    /// Connections are being opened.
    Preparing,
    /// All connections are open, and the load waits for its start.
    Prepared,
    /// The load runs. Contains the seconds that completed since the last call of [`Work::look`].
    Running(Vec<LiveSecond>),
    /// The load has finished. Contains its last completed seconds, and its report.
    Done(Vec<LiveSecond>, Box<ShardReport>),
}

/// Executes loads for an agent. No call blocks for more than some milliseconds.
pub trait Work {
    /// Starts to prepare a load.
    ///
    /// # Errors
    /// The reason why the load cannot be prepared.
    fn prepare(&mut self, spec: &LoadSpec) -> Result<(), AgentFailure>;

    /// Starts the prepared load at `at_ns` of this machine's monotonic clock.
    ///
    /// # Errors
    /// Why it cannot start.
    fn start(&mut self, at_ns: u64) -> Result<(), AgentFailure>;

    /// The state of the load.
    ///
    /// # Errors
    /// The reason why the load failed. A failed load has ended.
    fn look(&mut self) -> Result<Progress, AgentFailure>;

    /// Ends the load early; [`Work::look`] returns the results so far.
    fn end_early(&mut self);

    /// Aborts the load, if there is one.
    fn abort(&mut self);

    /// Starts to sample the processes of this host that `sampling` selects. Ends an earlier sampling.
    ///
    /// # Errors
    /// The reason why the processes cannot be sampled.
    fn sample(&mut self, sampling: &Sampling) -> Result<(), AgentFailure>;

    /// Stops sampling, and returns the samples in `span`.
    ///
    /// # Errors
    /// If nothing was sampled.
    fn sampled(&mut self, span: SampleSpan) -> Result<SampleReport, AgentFailure>;

    /// Starts an upstream that listens on the address `at` of this host.
    ///
    /// # Errors
    /// Why it cannot start.
    fn serve(&mut self, at: IpAddr, serving: &Serving) -> Result<Served, AgentFailure>;

    /// Stops all upstreams.
    fn stop_serving(&mut self);
}

/// Takes part in a run until the coordinator ends the run, or `stop` is set. When `run` returns, no load runs.
///
/// # Errors
/// [`AgentError`] if the agent cannot join, is rejected, or loses the coordinator.
pub fn run(options: &Options, work: &mut dyn Work, stop: &AtomicBool) -> Result<(), AgentError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let taken_part = runtime.map_err(AgentError::Start)?.block_on(take_part(options, work, stop));
    work.abort();
    taken_part
}

async fn take_part(options: &Options, work: &mut dyn Work, stop: &AtomicBool) -> Result<(), AgentError> {
    let mut stream = connect(options, stop).await?;
    let lost = |error: &dyn std::fmt::Display| AgentError::Lost { why: error.to_string() };
    let hello = FromAgent::Hello(options.hello.clone());
    link::write(&mut stream, &hello).await.map_err(|error| lost(&error))?;
    let silence = Silence::now();
    let answer = timeout(CONNECT_MAX, link::read(&mut stream, &silence)).await;
    match answer.map_err(|_| lost(&"no response"))?.map_err(|error| lost(&error))? {
        Some(ToAgent::Welcome { .. }) => {}
        Some(ToAgent::Refuse { why, remedy }) => return Err(AgentError::Refused { why, remedy }),
        _ => return Err(lost(&"the connection was closed")),
    }
    let own = stream.get_ref().0.local_addr().map_err(|error| lost(&error))?.ip().to_canonical();
    let (reader, writer) = tokio::io::split(stream);
    let (heard_in, heard) = mpsc::unbounded_channel();
    let listening = tokio::spawn(link::listen(reader, heard_in, silence.clone()));
    let session = Session {
        dir: &options.dir,
        work,
        writer,
        waiting: None,
        active: None,
        is_prepared: false,
        own,
        sampling: None,
    };
    let ended = session.run(heard, &silence, stop).await;
    listening.abort();
    ended
}

/// Connects, with retries until the coordinator listens.
async fn connect(options: &Options, stop: &AtomicBool) -> Result<TlsStream<TcpStream>, AgentError> {
    let (tls, name) = options.ticket.client()?;
    let connector = TlsConnector::from(tls);
    let deadline = Instant::now() + JOIN_MAX;
    loop {
        let error = match timeout(CONNECT_MAX, try_connect(&options.join, &connector, &name)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error,
            Err(_) => std::io::Error::other("no response"),
        };
        // A retry cannot fix a wrong certificate.
        if Instant::now() >= deadline || error.kind() == std::io::ErrorKind::InvalidData {
            return Err(AgentError::Join { address: options.join.clone(), source: error });
        }
        if stop.load(Ordering::Relaxed) {
            return Err(AgentError::Stopped);
        }
        sleep(JOIN_EVERY).await;
    }
}

async fn try_connect(
    address: &str,
    connector: &TlsConnector,
    name: &ServerName<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    connector.connect(name.clone(), stream).await
}

struct Session<'a> {
    dir: &'a Path,
    work: &'a mut dyn Work,
    writer: WriteHalf<TlsStream<TcpStream>>,
    /// An assigned load that waits for files from the coordinator.
    waiting: Option<Box<Assignment>>,
    /// Number of the current load; `None` without a load.
    active: Option<u64>,
    is_prepared: bool,
    /// This host's IP address in its connection to the coordinator.
    own: IpAddr,
    /// The current sampling: its number, and the error if it could not start.
    sampling: Option<(u64, Result<(), AgentFailure>)>,
}

fn nothing_sampled() -> AgentFailure {
    AgentFailure::new("sampler", "sampling has not started", "report this as a bug")
}

impl Session<'_> {
    async fn run(
        mut self,
        mut heard: mpsc::UnboundedReceiver<Incoming<ToAgent>>,
        silence: &Silence,
        stop: &AtomicBool,
    ) -> Result<(), AgentError> {
        let lost = |why: String| AgentError::Lost { why };
        loop {
            if silence.left().is_none() {
                return Err(lost(format!("no data received for {} s", SILENCE_MAX.as_secs())));
            }
            let pause = if self.active.is_some() { LOOK_EVERY } else { IDLE_EVERY };
            tokio::select! {
                message = heard.recv() => {
                    let (message, at_ns) = match message {
                        Some(Ok(message)) => message,
                        Some(Err(why)) => return Err(lost(why)),
                        None => return Err(lost("the connection was closed".into())),
                    };
                    if message == ToAgent::Leave {
                        return Ok(());
                    }
                    self.hear(message, at_ns).await?;
                }
                () = sleep(pause) => {}
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.look().await?;
        }
    }

    async fn hear(&mut self, message: ToAgent, at_ns: u64) -> Result<(), AgentError> {
        match message {
            ToAgent::Ping { sent_ns } => {
                let pong = FromAgent::Pong { ping_ns: sent_ns, received_ns: at_ns, sent_ns: mono_ns() };
                return self.say(&pong).await;
            }
            ToAgent::Assign(assignment) => {
                self.end();
                self.active = Some(assignment.load);
                self.waiting = Some(assignment);
                let missing = self.missing();
                if !missing.is_empty() {
                    return self.say(&FromAgent::Need { sha256: missing }).await;
                }
                return self.prepare().await;
            }
            ToAgent::File { sha256, content } => {
                if let Err(failure) = self.keep(&sha256, &content) {
                    return self.fail(failure).await;
                }
                if self.missing().is_empty() {
                    return self.prepare().await;
                }
            }
            ToAgent::Start { load, at_ns } if self.active == Some(load) => {
                if let Err(failure) = self.work.start(at_ns) {
                    return self.fail(failure).await;
                }
            }
            ToAgent::Serve { number, serving } => {
                let served = self.work.serve(self.own, &serving).map(Box::new);
                return self.say(&FromAgent::Served { number, served }).await;
            }
            ToAgent::StopServing => self.work.stop_serving(),
            ToAgent::End { load } if self.active == Some(load) => self.work.end_early(),
            ToAgent::Abort { load } if self.active == Some(load) => self.end(),
            // If sampling cannot start, the agent reports the failure when the coordinator requests the samples.
            ToAgent::Sample { number, sampling } => {
                self.sampling = Some((number, self.work.sample(&sampling)));
            }
            ToAgent::Sampled { number, span } => {
                let begun = self.sampling.take().filter(|(begun, _)| *begun == number);
                let begun = begun.map_or_else(|| Err(nothing_sampled()), |(_, begun)| begun);
                let report = begun.and_then(|()| self.work.sampled(span)).map(Box::new);
                return self.say(&FromAgent::Sampled { number, report }).await;
            }
            ToAgent::Start { .. } | ToAgent::End { .. } | ToAgent::Abort { .. } => {}
            ToAgent::Welcome { .. } | ToAgent::Refuse { .. } | ToAgent::Leave => {}
        }
        Ok(())
    }

    /// The names of the waiting load's files that have not arrived yet.
    fn missing(&self) -> Vec<String> {
        let names = self.waiting.iter().flat_map(|assignment| assignment.files.keys());
        names.filter(|name| !self.dir.join(name).exists()).cloned().collect()
    }

    fn keep(&self, name: &str, content: &str) -> Result<(), AgentFailure> {
        let remedy = format!("check the free space and the permissions of {}", self.dir.display());
        let failed = |message: String| AgentFailure::new("files", message, &remedy);
        let content = STANDARD.decode(content).map_err(|error| failed(error.to_string()))?;
        if !is_name_of(name, &content) {
            return Err(failed(format!("the content of file {name} does not match its hash")));
        }
        let (path, beside) = (self.dir.join(name), self.dir.join(format!("{name}.part")));
        let written = fs::write(&beside, content).and_then(|()| fs::rename(&beside, &path));
        written.map_err(|error| failed(format!("{}: {error}", path.display())))
    }

    async fn prepare(&mut self) -> Result<(), AgentError> {
        let Some(mut assignment) = self.waiting.take() else { return Ok(()) };
        self.is_prepared = false;
        if let Err(message) = place_files(&mut assignment.spec, self.dir, &assignment.files) {
            return self.fail(AgentFailure::new("files", message, "report this as a bug")).await;
        }
        match self.work.prepare(&assignment.spec) {
            Ok(()) => Ok(()),
            Err(failure) => self.fail(failure).await,
        }
    }

    /// Checks the state of the load, and sends the coordinator what has changed.
    async fn look(&mut self) -> Result<(), AgentError> {
        let Some(load) = self.active.filter(|_| self.waiting.is_none()) else { return Ok(()) };
        match self.work.look() {
            Err(failure) => self.fail(failure).await,
            Ok(Progress::Preparing) => Ok(()),
            Ok(Progress::Prepared) if self.is_prepared => Ok(()),
            Ok(Progress::Prepared) => {
                self.is_prepared = true;
                self.say(&FromAgent::Prepared { load }).await
            }
            Ok(Progress::Running(seconds)) => self.say_seconds(load, seconds).await,
            Ok(Progress::Done(seconds, report)) => {
                self.say_seconds(load, seconds).await?;
                self.active = None;
                self.say(&FromAgent::Done { load, report }).await
            }
        }
    }

    async fn say_seconds(&mut self, load: u64, seconds: Vec<LiveSecond>) -> Result<(), AgentError> {
        for second in seconds {
            self.say(&FromAgent::Second { load, second: Box::new(second) }).await?;
        }
        Ok(())
    }

    async fn fail(&mut self, failure: AgentFailure) -> Result<(), AgentError> {
        let load = self.active;
        self.end();
        match load {
            Some(load) => self.say(&FromAgent::Failed { load, failure }).await,
            None => Ok(()),
        }
    }

    fn end(&mut self) {
        self.work.abort();
        (self.active, self.waiting, self.is_prepared) = (None, None, false);
    }

    async fn say(&mut self, message: &FromAgent) -> Result<(), AgentError> {
        let written = link::write(&mut self.writer, message).await;
        written.map_err(|error| AgentError::Lost { why: error.to_string() })
    }
}
