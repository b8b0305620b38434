//! HTTP/2 connections. The task of a connection sends responses that are due immediately. Each other request gets
//! its own task.

mod exchange;
mod wire;

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use tokio::task::JoinSet;

use crate::answer::{ERROR_BODY, fields};
use crate::decision::Kind;
use crate::idle::Activity;
use crate::outcome::Outcome;
use crate::stats::Event;
use crate::stream::Stream;
use crate::worker::Worker;

use exchange::Exchange;
use wire::{Pressure, Wire};

/// Maximum concurrent streams per connection, unless the specification sets another limit.
const STREAMS_MAX: u32 = 256;

/// Flow-control window of a stream: how many unread bytes a client may send on it.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// Flow-control window of a connection: how many unread bytes a client may send on it.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// Maximum number of bytes that a stream buffers before they are sent.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// Maximum size of the header fields of a request, in bytes.
const FIELDS_BYTES_MAX: u32 = 32 * 1024;

/// A body of at most this size is given to the library in one piece, even if the flow-control windows are smaller. All
/// streams of a connection together then buffer at most a few megabytes.
const AT_ONCE_BYTES_MAX: u64 = 16 * 1024;

/// Serves a connection until it closes. `first` are the bytes already read from it.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    activity: Rc<Activity>,
    stream: Stream,
    first: Vec<u8>,
) -> io::Result<()> {
    let pressure = Rc::<Pressure>::default();
    let wire = Wire::new(stream, first, Rc::clone(&worker), Rc::clone(&activity), Rc::clone(&pressure));
    let spec = &worker.shared.spec.http2;
    let mut connection: Connection<Wire, Bytes> = Builder::new()
        .max_concurrent_streams(spec.max_streams.map_or(STREAMS_MAX, |streams| streams.get()))
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_header_list_size(FIELDS_BYTES_MAX)
        .handshake(wire)
        .await
        .map_err(io::Error::other)?;
    // Dropping this set when the connection closes cancels responses that are delayed.
    let mut exchanges = JoinSet::new();
    let mut requests = 0_u32;
    while let Some(next) = connection.accept().await {
        let (request, respond) = next.map_err(io::Error::other)?;
        if let Some(exchange) = begin(&worker, &activity, &pressure, request, respond) {
            while exchanges.try_join_next().is_some() {}
            exchanges.spawn_local(exchange.run());
        }
        requests = requests.saturating_add(1);
        if spec.goaway_after.is_some_and(|after| after.get() == requests) {
            worker.counters().event(Event::GoAway);
            connection.graceful_shutdown();
        }
    }
    Ok(())
}

/// Responds to a request if its response is due immediately. Otherwise returns the request.
fn begin(
    worker: &Rc<Worker>,
    activity: &Rc<Activity>,
    pressure: &Rc<Pressure>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> Option<Exchange> {
    if request.method() == Method::CONNECT {
        let date = worker.answers.borrow().date.clone();
        worker.counters().response(501);
        send_at_once(&mut respond, 501, fields(None, &date, Some(0)), Bytes::new(), true);
        return None;
    }
    let head_only = request.method() == Method::HEAD;
    let outcome = match worker.decide(request.uri().path_and_query().map_or("/", |path| path.as_str())) {
        Kind::Counted(outcome) => outcome,
        Kind::Own(own) => {
            let own = worker.answer_own(own);
            let date = worker.answers.borrow().date.clone();
            let fields =
                fields(Some(HeaderValue::from_static(own.media_type)), &date, Some(own.text.len() as u64));
            send_at_once(&mut respond, own.status, fields, own.text.into(), head_only);
            return None;
        }
    };
    if outcome == Outcome::Refused {
        worker.counters().event(Event::Refused);
        respond.send_reset(Reason::REFUSED_STREAM);
        return None;
    }
    let shared = &worker.shared;
    let is_plain = match outcome {
        Outcome::Good => shared.spec.body_bytes <= AT_ONCE_BYTES_MAX,
        Outcome::Error => true,
        _ => false,
    };
    let is_due = worker.delays_none() && !shared.spec.is_echo && request.body().is_end_stream();
    if !is_plain || !is_due {
        let (worker, activity, pressure) = (Rc::clone(worker), Rc::clone(activity), Rc::clone(pressure));
        return Some(Exchange::new(worker, activity, pressure, request, respond, outcome, head_only));
    }
    let is_error = outcome == Outcome::Error;
    let (status, body) =
        if is_error { (500, Bytes::from_static(ERROR_BODY)) } else { (200, worker.body.clone()) };
    let fields = worker.answers.borrow().fields(is_error).clone();
    worker.counters().response(status);
    let body_bytes = if head_only { 0 } else { body.len() };
    worker.counters().sent(body_bytes);
    if !send_at_once(&mut respond, status, fields, body, head_only) {
        worker.counters().response_failed(status);
        worker.counters().not_sent(body_bytes);
    }
    None
}

/// Sends a whole response. Returns false if the stream no longer accepts it.
fn send_at_once(
    respond: &mut SendResponse<Bytes>,
    status: u16,
    fields: HeaderMap,
    body: Bytes,
    head_only: bool,
) -> bool {
    let is_end = head_only || body.is_empty();
    let Ok(mut send) = respond.send_response(response(status, fields), is_end) else { return false };
    is_end || send.send_data(body, true).is_ok()
}

fn response(status: u16, fields: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).expect("every status of the origin is valid");
    *response.headers_mut() = fields;
    response
}
