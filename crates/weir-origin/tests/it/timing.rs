//! Delays, queues and stalls. The tests check the statistics of the origin.

use std::num::NonZeroUsize;

use weir_origin::{OriginSpec, QueueWaits, ServiceSpec};

use crate::{Client, check_counts, origin, spec};

#[test]
fn delays_are_never_too_short_and_run_concurrently() {
    let delay_ns = 3_000_000;
    let origin = origin(&OriginSpec { delay: "const:3ms".parse().unwrap(), ..spec() });
    let mut clients: Vec<Client> = (0..100).map(|_| Client::connect(origin.address())).collect();
    for _ in 0..3 {
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.receive(false).status, 200);
        }
    }
    let stats = origin.stats();
    check_counts(&stats, 300, &[(200, 300)]);
    let delays = stats.delays.unwrap();
    assert_eq!(delays.count, 300);
    assert!(delays.min_ns >= delay_ns && delays.min_ns <= delays.mean_ns && delays.mean_ns <= delays.max_ns);
}

#[test]
fn own_paths_are_not_delayed() {
    let origin = origin(&OriginSpec { delay: "const:1h".parse().unwrap(), ..spec() });
    Client::connect(origin.address()).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(Client::connect(origin.address()).get("/__weir/stats").status, 200);
}

/// Reads the statistics over HTTP.
fn stats_over_http(client: &mut Client) -> serde_json::Value {
    serde_json::from_slice(&client.get("/__weir/stats").body).unwrap()
}

#[test]
fn actual_delays_are_a_standard_histogram() {
    let origin = origin(&OriginSpec { delay: "uniform:10us..3ms".parse().unwrap(), workers: 2, ..spec() });
    let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(origin.address())).collect();
    for client in &mut clients {
        for _ in 0..20 {
            assert_eq!(client.get("/").status, 200);
        }
    }
    let delays = stats_over_http(&mut clients[0])["delays"].take();
    let histogram: weir_results::Histogram = serde_json::from_value(delays["histogram"].clone()).unwrap();
    let histogram = histogram.decode().unwrap();
    assert_eq!((histogram.len(), delays["count"].as_u64()), (200, Some(200)));
    let [min, p50, p90, p99, max] =
        ["min_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"].map(|name| delays[name].as_u64().unwrap());
    assert!((10_000..=p50).contains(&min) && p50 <= p90 && p90 <= p99 && p99 <= max, "{delays}");
    assert_eq!(histogram.value_at_quantile(0.5), p50);
}

#[test]
fn all_workers_and_connections_share_one_queue() {
    let service = ServiceSpec { time: "const:1ms".parse().unwrap(), servers: NonZeroUsize::new(2).unwrap() };
    let origin = origin(&OriginSpec { service: Some(service), workers: 3, ..spec() });
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(origin.address())).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.receive(false).status, 200);
    }
    let stats = origin.stats();
    check_counts(&stats, 20, &[(200, 20)]);
    let QueueWaits { entered, wait_mean_ns, wait_max_ns } = stats.queue.unwrap();
    assert!(entered == 20 && wait_mean_ns <= wait_max_ns, "{:?}", stats.queue);
    // Each delay is at least the wait of the request plus its service time.
    let delays = stats.delays.unwrap();
    assert!(delays.count == 20 && delays.min_ns >= 1_000_000 && delays.max_ns >= wait_max_ns + 1_000_000);
    assert!(delays.mean_ns >= wait_mean_ns + 1_000_000);
}

#[test]
fn stalled_responses_arrive_and_their_delay_is_recorded() {
    let origin = origin(&OriginSpec { stall: Some("10ms/10001us".parse().unwrap()), ..spec() });
    let mut client = Client::connect(origin.address());
    for _ in 0..20 {
        assert_eq!(client.get("/").status, 200);
    }
    let delays = origin.stats().delays.unwrap();
    // The origin sends responses only during 1 µs of every 10,001 µs, so some responses must wait.
    assert!(delays.count == 20 && delays.max_ns > 100_000, "{delays:?}");
    check_counts(&origin.stats(), 20, &[(200, 20)]);
}

#[test]
fn a_delay_can_be_added_and_removed_at_run_time() {
    for (delay, own_ns) in [("none", 0), ("const:1ms", 1_000_000)] {
        let origin = origin(&OriginSpec { delay: delay.parse().unwrap(), workers: 2, ..spec() });
        let set = |ns: &str| Client::connect(origin.address()).get(&format!("/__weir/delay/{ns}")).status;
        let mut client = Client::connect(origin.address());
        assert_eq!((set("3000000"), client.get("/").status), (200, 200));
        let given = origin.stats().delays.unwrap();
        assert!(given.count == 1 && given.min_ns >= own_ns + 3_000_000, "{delay}: {given:?}");
        assert_eq!((set("5000"), client.get("/").status), (200, 200));
        let given = origin.stats().delays.unwrap();
        assert!(given.count == 2 && given.min_ns >= own_ns + 5_000, "{delay}: {given:?}");
        assert_eq!((set("0"), client.get("/").status), (200, 200));
        let count = origin.stats().delays.unwrap().count;
        assert_eq!(count, if own_ns == 0 { 2 } else { 3 }, "{delay}: without a delay nothing is recorded");
        assert_eq!([set("-1"), set("61000000000"), set("")], [404; 3]);
    }
}
