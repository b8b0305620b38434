//! HTTP/2 with prior knowledge: responses, delays and faults as with HTTP/1.1, and the faults that only HTTP/2 has.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};

use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use weir_document::{Share, Slow};
use weir_origin::{FaultSpec, Faults, Http2Spec, OriginSpec, ServiceSpec};

use crate::echo::bytes;
use crate::{Client, check_counts, origin, spec};

/// The client side of an HTTP/2 connection.
pub(crate) struct Http2 {
    send: SendRequest<Bytes>,
    driver: tokio::task::JoinHandle<Result<(), h2::Error>>,
}

/// The result of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Option<u16>,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The reason of a stream reset; `None` if the stream was not reset.
    pub(crate) broken: Option<Reason>,
}

impl Http2 {
    async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap()).await
    }

    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        Self { send, driver: tokio::spawn(connection) }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[]).await
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: &[u8]) -> Answer {
        let mut answer = Answer { status: None, fields: HeaderMap::new(), body: Vec::new(), broken: None };
        if let Err(error) = self.try_ask(method, path, body, &mut answer).await {
            answer.broken = Some(error.reason().unwrap_or(Reason::NO_ERROR));
        }
        answer
    }

    async fn try_ask(
        &self,
        method: Method,
        path: &str,
        body: &[u8],
        answer: &mut Answer,
    ) -> Result<(), h2::Error> {
        let request = Request::builder().method(method).uri(format!("http://a{path}"));
        let request = request.header("content-type", "a/b").body(()).unwrap();
        let (response, mut send) = self.send.clone().ready().await?.send_request(request, body.is_empty())?;
        let body = Bytes::copy_from_slice(body);
        let sender = tokio::spawn(async move {
            let mut rest = body;
            while !rest.is_empty() {
                send.reserve_capacity(rest.len());
                let Some(Ok(room)) = std::future::poll_fn(|cx| send.poll_capacity(cx)).await else { return };
                let piece = rest.split_to(room.min(rest.len()));
                if send.send_data(piece, rest.is_empty()).is_err() {
                    return;
                }
            }
        });
        let response = response.await?;
        answer.status = Some(response.status().as_u16());
        answer.fields = response.headers().clone();
        let mut body = response.into_body();
        while let Some(piece) = body.data().await {
            let piece = piece?;
            answer.body.extend_from_slice(&piece);
            body.flow_control().release_capacity(piece.len())?;
        }
        sender.await.unwrap();
        Ok(())
    }
}

/// Runs the client of a test. A test that hangs fails after 60 s.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(std::time::Duration::from_secs(60), test).await.unwrap() })
}

fn with_faults(faults: FaultSpec) -> OriginSpec {
    OriginSpec { faults, ..spec() }
}

#[test]
fn any_path_is_answered_and_counted_together_with_http1() {
    let origin = origin(&spec());
    run(async {
        let client = Http2::connect(origin.address()).await;
        for path in ["/", "/get/1", "/a?b=c"] {
            let answer = client.get(path).await;
            assert_eq!((answer.status, answer.body.len(), answer.broken), (Some(200), 64, None));
            assert_eq!(answer.fields["content-length"], "64");
        }
        let head = client.ask(Method::HEAD, "/", &[]).await;
        assert_eq!((head.status, head.body.len()), (Some(200), 0));
        let posted = client.ask(Method::POST, "/", &bytes(1_000_000)).await;
        assert_eq!((posted.status, posted.body.len()), (Some(200), 64));
        assert_eq!(client.get("/__weir/other").await.status, Some(404));
        let stats: serde_json::Value =
            serde_json::from_slice(&client.get("/__weir/stats").await.body).unwrap();
        assert_eq!((stats["requests"].as_u64(), stats["bytes_sent"].as_u64()), (Some(5), Some(4 * 64)));
    });
    assert_eq!(Client::connect(origin.address()).get("/").status, 200);
    check_counts(&origin.stats(), 6, &[(200, 6)]);
}

#[test]
fn many_streams_are_answered_concurrently() {
    let origin = origin(&OriginSpec { body_bytes: 100_000, ..spec() });
    run(async {
        let client = Http2::connect(origin.address()).await;
        let answers = (0..200).map(|_| client.get("/"));
        let mut tasks = Vec::new();
        for answer in answers {
            tasks.push(answer);
        }
        for answer in join(tasks).await {
            assert_eq!((answer.status, answer.body.len(), answer.broken), (Some(200), 100_000, None));
        }
    });
    let stats = origin.stats();
    check_counts(&stats, 200, &[(200, 200)]);
    assert_eq!(stats.bytes_sent, 200 * 100_000);
}

/// Runs all futures at the same time, and returns their results in order.
async fn join<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in &mut futures {
            if done.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(cx)
            {
                *done = Some(value);
            }
        }
        match futures.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    futures.into_iter().filter_map(|(_, done)| done).collect()
}

#[test]
fn large_bodies_are_streamed_within_the_windows() {
    let origin = origin(&OriginSpec { body_bytes: 20_000_000, ..spec() });
    run(async {
        let client = Http2::connect(origin.address()).await;
        let answer = client.get("/").await;
        assert_eq!((answer.body.len(), answer.broken), (20_000_000, None));
        let pattern = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";
        assert!(answer.body.iter().zip(pattern.iter().cycle()).all(|(is, wanted)| is == wanted));
    });
    assert_eq!(origin.stats().bytes_sent, 20_000_000);
}

#[test]
fn every_fault_share_is_met_exactly_and_counted() {
    let slow = Some(Slow { share: Share(0.1), time: "1ms".parse().unwrap() });
    let [errors, resets, half, refuse] = [0.1, 0.2, 0.2, 0.1].map(Share);
    let origin = origin(&with_faults(FaultSpec { errors, resets, half, slow, refuse }));
    let mut ends = std::collections::BTreeMap::new();
    run(async {
        let client = Http2::connect(origin.address()).await;
        for _ in 0..100 {
            let answer = client.get("/").await;
            *ends.entry((answer.status, answer.body.len(), answer.broken.map(u32::from))).or_insert(0) += 1;
        }
    });
    let [internal, refused] =
        [Reason::INTERNAL_ERROR, Reason::REFUSED_STREAM].map(|reason| Some(reason.into()));
    let expected = [
        ((None, 0, internal), 20),
        ((None, 0, refused), 10),
        ((Some(200), 32, internal), 20),
        ((Some(200), 64, None), 40),
        ((Some(500), 30, None), 10),
    ];
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), expected);
    let stats = origin.stats();
    check_counts(&stats, 100, &[(200, 40), (500, 10)]);
    let counted = Faults { resets: 20, half: 20, slow: 10, refused: 10, ..Faults::default() };
    assert_eq!(stats.faults, Some(counted));
}

#[test]
fn a_half_response_is_never_complete() {
    for (body_bytes, method, expected) in [
        (0, Method::GET, (None, 0)),
        (64, Method::HEAD, (None, 0)),
        (1, Method::GET, (Some(200), 0)),
        (1_000_001, Method::GET, (Some(200), 500_000)),
    ] {
        let faults = FaultSpec { half: Share(1.0), ..FaultSpec::default() };
        let origin = origin(&OriginSpec { body_bytes, faults, ..spec() });
        run(async {
            let client = Http2::connect(origin.address()).await;
            for _ in 0..5 {
                let answer = client.ask(method.clone(), "/", &[]).await;
                assert_eq!((answer.status, answer.body.len()), expected, "{method} of {body_bytes}");
                assert_eq!(answer.broken, Some(Reason::INTERNAL_ERROR));
            }
        });
        check_counts(&origin.stats(), 5, &[]);
    }
}

#[test]
fn delays_and_queues_apply_to_streams() {
    let origin = origin(&OriginSpec {
        service: Some(ServiceSpec { time: "const:1ms".parse().unwrap(), servers: NonZeroUsize::MIN }),
        ..spec()
    });
    run(async {
        let client = Http2::connect(origin.address()).await;
        for answer in join((0..20).map(|_| client.get("/")).collect()).await {
            assert_eq!(answer.status, Some(200));
        }
    });
    let stats = origin.stats();
    let (delays, queue) = (stats.delays.unwrap(), stats.queue.unwrap());
    assert_eq!((delays.count, queue.entered), (20, 20));
    assert!(delays.min_ns >= 1_000_000 && delays.max_ns >= queue.wait_max_ns + 1_000_000);
}

#[test]
fn cancelled_streams_free_their_slots() {
    let origin = origin(&OriginSpec {
        delay: "const:1h".parse().unwrap(),
        http2: Http2Spec { max_streams: NonZeroU32::new(2), ..Http2Spec::default() },
        ..spec()
    });
    run(async {
        let client = Http2::connect(origin.address()).await;
        for _ in 0..50 {
            let request = Request::builder().uri("http://a/").body(()).unwrap();
            let (_, mut send) =
                client.send.clone().ready().await.unwrap().send_request(request, true).unwrap();
            assert_eq!(client.get("/__weir/stats").await.status, Some(200));
            send.send_reset(Reason::CANCEL);
        }
    });
    check_counts(&origin.stats(), 50, &[]);
}

#[test]
fn goaway_is_sent_after_the_specified_number_of_requests() {
    let http2 = Http2Spec { goaway_after: NonZeroU32::new(10), ..Http2Spec::default() };
    let origin = origin(&OriginSpec { http2, ..spec() });
    let mut answered = 0;
    run(async {
        for _ in 0..5 {
            let client = Http2::connect(origin.address()).await;
            while client.get("/").await.status == Some(200) {
                answered += 1;
            }
            // The client's connection ends without an error after the GOAWAY.
            client.driver.await.unwrap().unwrap();
        }
    });
    // Further requests may arrive before the client has received the GOAWAY.
    assert!(answered >= 50, "{answered}");
    let stats = origin.stats();
    check_counts(&stats, answered, &[(200, answered)]);
    assert_eq!(stats.faults, Some(Faults { goaways: 5, ..Faults::default() }));
}

#[test]
fn max_streams_is_enforced() {
    let http2 = Http2Spec { max_streams: NonZeroU32::new(3), ..Http2Spec::default() };
    let origin = origin(&OriginSpec { http2, ..spec() });
    run(async {
        let client = Http2::connect(origin.address()).await;
        assert_eq!(client.get("/").await.status, Some(200));
        assert_eq!(client.send.current_max_send_streams(), 3);
        for answer in join((0..20).map(|_| client.get("/")).collect()).await {
            assert_eq!(answer.status, Some(200));
        }
    });
    check_counts(&origin.stats(), 21, &[(200, 21)]);
}

#[test]
fn echoes_have_the_whole_body_and_its_type() {
    let origin = origin(&OriginSpec { is_echo: true, ..spec() });
    run(async {
        let client = Http2::connect(origin.address()).await;
        for size in [0, 1, 65_536, 65_537, 3_000_000] {
            let answer = client.ask(Method::POST, "/", &bytes(size)).await;
            assert_eq!((answer.status, answer.broken), (Some(200), None));
            assert!(answer.body == bytes(size), "{} of {size} bytes", answer.body.len());
            assert_eq!(answer.fields["content-type"], "a/b");
        }
    });
    check_counts(&origin.stats(), 5, &[(200, 5)]);
}

#[test]
fn a_silent_origin_never_answers() {
    let origin = origin(&OriginSpec { is_silent: true, ..spec() });
    run(async {
        let client = Http2::connect(origin.address()).await;
        let mut silent = Box::pin(client.get("/"));
        // The statistics arrive although the earlier request has no response yet.
        let stats = tokio::select! {
            biased;
            answer = &mut silent => panic!("{answer:?}"),
            stats = async { client.get("/__weir/stats").await } => stats,
        };
        let stats: serde_json::Value = serde_json::from_slice(&stats.body).unwrap();
        assert_eq!((stats["requests"].as_u64(), stats["responses"].as_u64()), (Some(1), Some(0)));
        assert_eq!(stats["faults"]["silent"].as_u64(), Some(1));
    });
}

#[test]
fn the_preface_is_rejected_if_http2_is_off() {
    let origin = origin(&OriginSpec { http2: Http2Spec { is_off: true, ..Http2Spec::default() }, ..spec() });
    let mut client = Client::connect(origin.address());
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(client.receive(false).status, 505);
    assert!(client.is_at_end());
}

#[test]
fn requests_that_start_like_the_preface_are_http1() {
    let origin = origin(&spec());
    for request in ["PRI /x HTTP/1.1\r\nHost: a\r\n\r\n", "PUT / HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut client = Client::connect(origin.address());
        for byte in request.as_bytes() {
            client.send([*byte]);
        }
        assert_eq!(client.receive(false).status, 200);
    }
}
