//! Checks the requests that arrive at the server: each arrival sends its own request once.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use weir_engine::{EngineError, LoadSpec, RequestFileSpec, run};

use crate::load::{closed, drive, get};

/// Starts a peer that responds to every request and runs until the test ends. Returns its address, and a channel with
/// the request line and headers of each request.
fn reading_peer() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (heads_in, heads) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let heads_in = Sender::clone(&heads_in);
            std::thread::spawn(move || answer(stream.unwrap(), &heads_in));
        }
    });
    (address, heads)
}

fn answer(mut stream: TcpStream, heads: &Sender<String>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    loop {
        let head: Vec<String> =
            lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let is_over = head.is_empty() || heads.send(head.join("\n")).is_err();
        if is_over || stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

#[test]
fn every_arrival_sends_its_own_request() {
    let (address, heads) = reading_peer();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.jsonl");
    std::fs::write(&path, "{\"path\": \"/file/{seq}\", \"name\": \"of the file\", \"weight\": 3}\n").unwrap();
    let spec = LoadSpec {
        requests: vec![get("/given/{seq}")],
        request_file: Some(RequestFileSpec { path, base: get("/"), is_method_given: false, shuffle: false }),
        tokens: vec!["t0".into(), "t1".into(), "t2".into()],
        workers: 2,
        ..closed(address, 400)
    };
    let record = drive(&spec);
    let (mut indices, mut of_the_file) = (BTreeSet::new(), 0);
    for head in heads.try_iter() {
        let target = head.split(' ').nth(1).unwrap().to_owned();
        let index: u64 = target.rsplit('/').next().unwrap().parse().unwrap();
        assert!(indices.insert(index), "{index} was sent twice");
        assert!(head.ends_with(&format!("Authorization: Bearer t{}", index % 3)), "{head}");
        of_the_file += u64::from(target.starts_with("/file/"));
    }
    assert!(indices.into_iter().eq(0..400));
    let routes: Vec<_> =
        record.routes.iter().map(|route| (route.name.as_str(), route.requests.completed)).collect();
    assert_eq!(routes, [("GET /given/{seq}", 400 - of_the_file), ("of the file", of_the_file)]);
    // The expected count is 300. The tolerance is four standard deviations of a binomial count.
    assert!(of_the_file.abs_diff(300) <= 35, "{of_the_file}");
}

#[test]
fn an_invalid_file_fails_the_load_before_it_begins() {
    let path = "no/such/file.txt";
    let file = RequestFileSpec { path: path.into(), base: get("/"), is_method_given: false, shuffle: false };
    let spec = LoadSpec { request_file: Some(file), ..closed("127.0.0.1:9".parse().unwrap(), 1) };
    let error = run(&spec, &(), &std::sync::atomic::AtomicBool::new(false)).unwrap_err();
    assert!(matches!(&error, EngineError::Invalid(problem) if problem.place == "file"), "{error}");
    assert!(error.to_string().starts_with("file: no/such/file.txt: cannot read the file: "), "{error}");
}
