use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{channel, sync_channel};

use weir_io::{WorkerOptions, spawn_thread};

use super::*;
use crate::pacing::source::Source;
use crate::spec::{LoadSpec, RequestSpec, ShardSpec};
use crate::timeline::Timeline;

#[test]
fn bytes_before_the_first_request_are_not_a_response() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let get = RequestSpec { headers: vec![("Host".into(), "a".into())], ..RequestSpec::default() };
    let (events_in, events) = channel();
    let (start, wait_for_start) = sync_channel(1);
    let addresses = Arc::from([listener.local_addr().unwrap().into()]);
    let plan = WorkerPlan {
        worker: 0,
        connections: 1,
        connections_first: 1,
        protocol: ProtocolSpec::Http1,
        streams: 1,
        dialing: Dialing { addresses, tls: None, is_stamped: false, shard: ShardSpec::WHOLE },
        requests: RequestSource::new(&LoadSpec { requests: vec![get], ..LoadSpec::default() }).unwrap(),
        has_domains: false,
        requests_per_connection: None,
        early_end_ns: Arc::default(),
        timeout_ns: 10_000_000_000,
        spin: false,
        events: events_in,
        start: wait_for_start,
    };
    let worker = spawn_thread(WorkerOptions::default(), move || work(plan)).unwrap();
    assert!(matches!(events.recv().unwrap().1, Event::Connected));
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let (mut early, _) = listener.accept().unwrap();
    early.write_all(answer).unwrap();
    let timeline = Timeline::new(mono_ns() + 50_000_000, 0, None, 0);
    let flow = Flow::new(Source::closed(0, 1, Some(1)), timeline, 10_000_000_000, 1);
    assert!(start.send(flow).is_ok());
    // The request must arrive on a second connection, and nothing on the first.
    let (mut second, _) = listener.accept().unwrap();
    assert!(second.read(&mut [0; 512]).unwrap() > 0);
    second.write_all(answer).unwrap();
    worker.join().unwrap().unwrap();
    assert_eq!(early.read(&mut [0; 512]).unwrap_or(0), 0);
    let books = events.iter().find_map(|(_, event)| match event {
        Event::Ended(report) => Some((report.flow.sustained, report.flow.warmup.errors.parse)),
        _ => None,
    });
    let (books, parse_before) = books.unwrap();
    assert_eq!((books.requests.sent, books.requests.completed), (1, 1));
    assert_eq!(books.errors.parse + parse_before, 1);
}
