//! Fault shares over HTTP/1.1, and invalid specifications.

use std::io::{ErrorKind, Read};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use weir_document::{Delay, Share, Slow};
use weir_origin::{FaultSpec, Faults, Http2Spec, OriginError, OriginSpec, ServiceSpec, TlsSpec, start};

use crate::{Client, check_counts, origin, spec};

#[test]
fn errors_have_the_specified_share() {
    let origin =
        origin(&OriginSpec { faults: FaultSpec { errors: Share(0.25), ..FaultSpec::default() }, ..spec() });
    let mut client = Client::connect(origin.address());
    let statuses: Vec<u16> = (0..1_000).map(|_| client.get("/").status).collect();
    assert_eq!(statuses[..8], [200, 200, 200, 500, 200, 200, 200, 500]);
    check_counts(&origin.stats(), 1_000, &[(200, 750), (500, 250)]);
}

/// How a request on its own connection ended: with a complete response, with some bytes before a close, or with a
/// reset.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Whole(u16),
    Broken { body_bytes: Option<usize> },
    Reset,
}

fn end_of(client: &mut Client, request: &str) -> End {
    client.send(request);
    let mut bytes = Vec::new();
    match client.stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => return End::Reset,
        read => read.map(drop).expect("a connection is closed or reset"),
    }
    let text = String::from_utf8(bytes).unwrap();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return End::Broken { body_bytes: None } };
    let wanted = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    match wanted.parse() == Ok(body.len()) {
        true => End::Whole(head[9..12].parse().unwrap()),
        false => End::Broken { body_bytes: Some(body.len()) },
    }
}

/// Sends `count` requests, each on a new connection, and checks how they end and which faults are counted.
#[track_caller]
fn check_ends(
    spec: &OriginSpec,
    request: &str,
    count: usize,
    expected: &[(End, usize)],
    faults: Option<Faults>,
) {
    let origin = origin(spec);
    let request = format!("{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let ends: Vec<End> =
        (0..count).map(|_| end_of(&mut Client::connect(origin.address()), &request)).collect();
    for (end, times) in expected {
        assert_eq!(ends.iter().filter(|is| *is == end).count(), *times, "{end:?} of {ends:?}");
    }
    let stats = origin.stats();
    let whole = ends.iter().filter(|end| matches!(end, End::Whole(_))).count() as u64;
    assert_eq!((stats.requests, stats.responses, stats.faults), (count as u64, whole, faults));
}

#[test]
fn resets_can_be_switched_on_and_off_at_run_time() {
    let origin = origin(&OriginSpec { workers: 2, ..spec() });
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let end = || end_of(&mut Client::connect(origin.address()), request);
    let mut kept = Client::connect(origin.address());
    assert_eq!((kept.get("/").status, end()), (200, End::Whole(200)));
    for _ in 0..2 {
        let switched = Client::connect(origin.address()).get("/__weir/resets/on");
        assert_eq!((switched.status, switched.body.as_slice()), (200, &b"resets are on\n"[..]));
        // All workers reset connections, including those opened before the resets were switched on.
        let ends: Vec<End> = (0..8).map(|_| end()).collect();
        assert!(ends.iter().all(|end| *end == End::Reset), "{ends:?}");
        assert_eq!(end_of(&mut kept, request), End::Reset);
        assert_eq!(Client::connect(origin.address()).get("/__weir/resets/off").status, 200);
        assert_eq!(end(), End::Whole(200));
        kept = Client::connect(origin.address());
    }
    assert_eq!(Client::connect(origin.address()).get("/__weir/resets/maybe").status, 404);
    let stats = origin.stats();
    assert_eq!((stats.requests, stats.responses), (4 + 2 * 9, 4), "switching is no request");
    assert_eq!(stats.faults, Some(Faults { resets: 18, ..Faults::default() }));
}

#[test]
fn every_fault_share_is_met_exactly_and_counted() {
    let faults = FaultSpec {
        errors: Share(0.1),
        resets: Share(0.2),
        half: Share(0.2),
        slow: Some(Slow { share: Share(0.1), time: "1ms".parse().unwrap() }),
        refuse: Share(0.1),
    };
    let expected = [
        // HTTP/1.1 cannot refuse a stream, so requests with the fault `refuse` get successful responses.
        (End::Whole(200), 50),
        (End::Whole(500), 10),
        (End::Reset, 20),
        (End::Broken { body_bytes: Some(32) }, 20),
    ];
    let counted = Faults { resets: 20, half: 20, slow: 10, ..Faults::default() };
    check_ends(&OriginSpec { faults, workers: 2, ..spec() }, "GET /", 100, &expected, Some(counted));
}

#[test]
fn a_half_response_is_never_complete() {
    let half = |body_bytes| {
        let faults = FaultSpec { half: Share(1.0), ..FaultSpec::default() };
        OriginSpec { body_bytes, faults, ..spec() }
    };
    let counted = Some(Faults { half: 2, ..Faults::default() });
    for (body_bytes, request, expected) in
        [(0, "GET /", None), (1, "GET /", Some(0)), (64, "HEAD /", None), (200_001, "GET /", Some(100_000))]
    {
        check_ends(&half(body_bytes), request, 2, &[(End::Broken { body_bytes: expected }, 2)], counted);
    }
}

#[test]
fn slow_bodies_are_complete() {
    for body_bytes in [0, 1, 9, 64, 1_000_001] {
        let slow = Some(Slow { share: Share(1.0), time: "2ms".parse().unwrap() });
        let faults = FaultSpec { slow, ..FaultSpec::default() };
        let counted = Some(Faults { slow: 3, ..Faults::default() });
        let spec = OriginSpec { body_bytes, faults, ..spec() };
        check_ends(&spec, "GET /", 3, &[(End::Whole(200), 3)], counted);
    }
}

#[test]
fn delays_and_faults_can_be_combined() {
    let faults = FaultSpec { resets: Share(0.5), half: Share(0.5), ..FaultSpec::default() };
    let delayed = OriginSpec { faults, delay: "const:1ms".parse().unwrap(), ..spec() };
    let expected = [(End::Reset, 5), (End::Broken { body_bytes: Some(32) }, 5)];
    check_ends(&delayed, "GET /", 10, &expected, Some(Faults { resets: 5, half: 5, ..Faults::default() }));
}

#[test]
fn a_connection_closes_after_its_last_response() {
    for last in [1, 3] {
        let origin = origin(&OriginSpec { close_after: NonZeroU32::new(last), ..spec() });
        let mut client = Client::connect(origin.address());
        for number in 1..=last {
            let response = client.get("/");
            assert_eq!(response.head.contains("Connection: close"), number == last, "{number} of {last}");
        }
        assert!(client.is_at_end());
        // Requests for the origin's own paths do not count toward the limit.
        let mut client = Client::connect(origin.address());
        for _ in 0..5 {
            assert!(!client.get("/__weir/stats").head.contains("Connection: close"));
        }
        check_counts(&origin.stats(), last.into(), &[(200, last.into())]);
    }
}

#[test]
fn a_silent_origin_reads_and_never_answers() {
    let origin = origin(&OriginSpec { is_silent: true, ..spec() });
    let mut client = Client::connect(origin.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.send(vec![b'x'; 3_000_000]);
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(client.is_at_end());
    assert_eq!(Client::connect(origin.address()).get("/__weir/stats").status, 200);
    let stats = origin.stats();
    check_counts(&stats, 1, &[]);
    assert_eq!(stats.faults, Some(Faults { silent: 1, ..Faults::default() }));
}

#[test]
fn a_port_in_use_is_rejected() {
    let first = origin(&spec());
    let error = start(&OriginSpec { listen: first.address(), ..spec() }).unwrap_err();
    assert!(matches!(error, OriginError::AddressTaken { address } if address == first.address()));
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {}: another process listens there", first.address())
    );
}

#[test]
fn invalid_specifications_are_rejected() {
    let check = |wrong: OriginSpec, expected: &str| {
        let error = start(&wrong).expect_err(expected);
        assert_eq!(error.to_string(), expected);
        assert!(error.is_wrong_use() && !error.remedy().is_empty());
    };
    let faults = |errors, resets| {
        let faults = FaultSpec { errors: Share(errors), resets: Share(resets), ..FaultSpec::default() };
        OriginSpec { faults, ..spec() }
    };
    let delay: Delay = "const:1ms".parse().unwrap();
    let service = |servers| Some(ServiceSpec { time: delay, servers: NonZeroUsize::new(servers).unwrap() });
    let http2 = Http2Spec { is_off: true, max_streams: NonZeroU32::new(1), ..Http2Spec::default() };
    check(OriginSpec { workers: 0, ..spec() }, "the origin needs at least one worker");
    check(faults(-0.1, 0.0), "the share -0.1 is not between 0 and 1");
    check(faults(0.0, f64::NAN), "the share NaN is not between 0 and 1");
    check(faults(0.75, 0.5), "the shares of errors, resets, half, slow and refuse add up to 125%");
    check(OriginSpec { delay, service: service(1), ..spec() }, "`delay` and `service` cannot be combined");
    check(OriginSpec { service: service(100_001), ..spec() }, "100001 servers exceed the maximum of 100000");
    check(
        OriginSpec { http2, ..spec() },
        "goaway, max-streams and refuse need HTTP/2, but `http1-only` is set",
    );
    let missing = |name: &str| PathBuf::from(format!("{}/{name}", env!("CARGO_TARGET_TMPDIR")));
    let given = TlsSpec::Given { cert: missing("no.pem"), key: missing("no.key") };
    let error = start(&OriginSpec { tls: Some(given), ..spec() }).unwrap_err();
    assert!(error.to_string().starts_with("cannot use `") && error.to_string().contains("no.pem"), "{error}");
    let domains = vec!["na\u{ef}ve".to_owned()];
    let made = TlsSpec::Made { domains, is_expired: false };
    let error = start(&OriginSpec { tls: Some(made), ..spec() }).unwrap_err();
    assert!(matches!(error, OriginError::MakeCertificate(_)), "{error}");
}
