//! The connection to one agent: its hello, its clock, and its messages.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::ServerConfig;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use weir_io::mono_ns;

use super::{Answer, Event, Heard, Shared};
use crate::clock::Exchange;
use crate::link::{self, SILENCE_MAX, Silence};
use crate::message::{FromAgent, Hello, PROTOCOL, ToAgent};
use crate::round::Said;

/// Time limit for the handshake and the hello.
const HELLO_MAX: Duration = Duration::from_secs(5);

/// Interval of clock measurements.
const PING_EVERY: Duration = Duration::from_secs(1);

/// Number of clock measurements right after the hello. With several measurements, at least one probably has a short
/// round trip, and so a small error.
const PINGS_FIRST: u32 = 10;
/// Interval of the clock measurements right after the hello.
const PING_FIRST_EVERY: Duration = Duration::from_millis(10);

/// Accepts connections, and serves each in its own task.
pub(super) async fn accept(listener: std::net::TcpListener, tls: Arc<ServerConfig>, shared: &Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let acceptor = TlsAcceptor::from(tls);
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            // Most likely, this process has no free file descriptors, which is temporary.
            tokio::time::sleep(PING_FIRST_EVERY).await;
            continue;
        };
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(shared));
        tokio::spawn(async move {
            if let Err(why) = serve(stream, address, &acceptor, &shared).await {
                let _ = shared.events.send(Event::Refused(format!("{address}: {why}")));
            }
        });
    }
}

/// Sends all agents the message to leave, and waits at most `within` until their connections are closed.
pub(super) async fn leave(shared: &Shared, within: Duration) {
    for member in shared.members().iter() {
        let _ = member.to.send(ToAgent::Leave);
    }
    let all_gone = async {
        while shared.members().iter().any(|member| member.gone.is_none()) {
            tokio::time::sleep(PING_FIRST_EVERY).await;
        }
    };
    let _ = timeout(within, all_gone).await;
}

/// Serves one connection until it closes. `Err` is the reason why the peer was rejected.
async fn serve(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: &TlsAcceptor,
    shared: &Shared,
) -> Result<(), String> {
    let _ = stream.set_nodelay(true);
    let own = stream.local_addr().map_err(|error| error.to_string())?;
    let greeting = timeout(HELLO_MAX, async {
        let mut stream = acceptor.accept(stream).await.map_err(|error| error.to_string())?;
        let hello = match link::read(&mut stream, &Silence::now()).await.map_err(|error| error.to_string())? {
            Some(FromAgent::Hello(hello)) => hello,
            _ => return Err("no hello message".to_owned()),
        };
        Ok((stream, hello))
    });
    let (mut stream, hello) = greeting.await.map_err(|_| "no hello message in time".to_owned())??;
    if let Some((why, remedy)) = refusal(&hello, &shared.version) {
        let _ = link::write(&mut stream, &ToAgent::Refuse { why: why.clone(), remedy }).await;
        return Err(why);
    }
    let (to, orders) = mpsc::unbounded_channel();
    let (number, name) = shared.join([address, own], hello, to);
    let _ = shared.events.send(Event::Joined);
    let (reader, mut writer) = tokio::io::split(stream);
    let why = match link::write(&mut writer, &ToAgent::Welcome { name }).await {
        Ok(()) => converse(number, shared, reader, writer, orders).await,
        Err(error) => error.to_string(),
    };
    shared.members()[number].gone = Some(why.clone());
    let said = Heard::Said(Said::Lost(why));
    let _ = shared.events.send(Event::Of { agent: number, load: None, said });
    Ok(())
}

/// Why the agent cannot take part, and the remedy; `None` if it can.
fn refusal(hello: &Hello, version: &str) -> Option<(String, String)> {
    if hello.version == version && hello.protocol == PROTOCOL {
        return None;
    }
    let why = format!("the agent runs weir {}, but the run uses weir {version}", hello.version);
    Some((why, format!("install weir {version} on {}", hello.name)))
}

/// Exchanges messages with an agent until one side closes the connection. Returns why it was closed.
async fn converse(
    number: usize,
    shared: &Shared,
    reader: ReadHalf<TlsStream<TcpStream>>,
    mut writer: WriteHalf<TlsStream<TcpStream>>,
    mut orders: mpsc::UnboundedReceiver<ToAgent>,
) -> String {
    let (heard_in, mut heard) = mpsc::unbounded_channel();
    let silence = Silence::now();
    let listening = tokio::spawn(link::listen(reader, heard_in, silence.clone()));
    let mut pings = interval(PING_FIRST_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pinged = 0;
    let why = loop {
        let Some(left) = silence.left() else {
            break format!("no data received for {} s", SILENCE_MAX.as_secs());
        };
        let message = tokio::select! {
            order = orders.recv() => match order {
                Some(order) => order,
                None => break "the run has ended".to_owned(),
            },
            _ = pings.tick() => {
                pinged += 1;
                if pinged == PINGS_FIRST {
                    pings = interval(PING_EVERY);
                    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
                }
                ToAgent::Ping { sent_ns: mono_ns() }
            }
            message = heard.recv() => match message {
                Some(Ok((message, at_ns))) => {
                    match answer(&mut writer, hear(number, shared, message, at_ns)).await {
                        Ok(()) => continue,
                        Err(error) => break error.to_string(),
                    }
                }
                Some(Err(why)) => break why,
                None => break "the connection was closed".to_owned(),
            },
            () = tokio::time::sleep(left) => continue,
        };
        let is_last = message == ToAgent::Leave;
        match link::write(&mut writer, &message).await {
            Ok(()) if is_last => break "the run has ended".to_owned(),
            Ok(()) => {}
            Err(error) => break error.to_string(),
        }
    };
    listening.abort();
    why
}

async fn answer(writer: &mut WriteHalf<TlsStream<TcpStream>>, answers: Vec<ToAgent>) -> io::Result<()> {
    for answer in answers {
        link::write(writer, &answer).await?;
    }
    Ok(())
}

/// Handles a message of the agent `number`. Returns the messages to send in response.
fn hear(number: usize, shared: &Shared, message: FromAgent, at_ns: u64) -> Vec<ToAgent> {
    let event = |load, said| {
        let _ = shared.events.send(Event::Of { agent: number, load: Some(load), said });
    };
    match message {
        FromAgent::Hello(_) => {}
        FromAgent::Pong { ping_ns, received_ns, sent_ns } => {
            let exchange = Exchange { sent_ns: ping_ns, received_ns, answered_ns: sent_ns, back_ns: at_ns };
            shared.members()[number].clocks.add(exchange);
        }
        FromAgent::Need { sha256 } => {
            let files = Arc::clone(&shared.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
            let file = |name: String| {
                let content = STANDARD.encode(files.0.get(&name)?);
                Some(ToAgent::File { sha256: name, content })
            };
            return sha256.into_iter().filter_map(file).collect();
        }
        FromAgent::Prepared { load } => event(load, Heard::Said(Said::Prepared)),
        FromAgent::Second { load, second } => event(load, Heard::Second(second)),
        FromAgent::Done { load, report } => event(load, Heard::Said(Said::Done(report))),
        FromAgent::Failed { load, failure } => event(load, Heard::Said(Said::Failed(failure))),
        FromAgent::Sampled { number: of, report } => event(of, Heard::Answer(Answer::Sampled(report))),
        FromAgent::Served { number: of, served } => event(of, Heard::Answer(Answer::Served(served))),
    }
    Vec::new()
}
