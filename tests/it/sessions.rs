//! Recorded sessions (HAR) through `weir load`: the requests that a server receives, and their order.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Value, json};

use crate::program::{Origin, finish, free_port, json as result_of, text, weir};

/// A server that responds to each request and sends (number of the connection, request) to the channel. Its threads end
/// with the test process.
fn recorder() -> (SocketAddr, Receiver<(usize, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let sender = sender.clone();
            std::thread::spawn(move || record(number, stream.unwrap(), &sender));
        }
    });
    (address, requests)
}

fn record(number: usize, mut stream: TcpStream, requests: &Sender<(usize, String)>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let head: Vec<String> =
            reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let Some(first) = head.first() else { return };
        let field = |name: &str| {
            let mut fields = head.iter().filter_map(|line| line.split_once(": "));
            fields.find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let length = field("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut said = first.trim_end_matches(" HTTP/1.1").to_owned();
        for name in ["host", "cookie", "origin"] {
            said += &field(name).map_or_else(String::new, |value| format!(" {name}={value}"));
        }
        if length > 0 {
            said += &format!(" body={}", text(&body));
        }
        let is_gone = requests.send((number, said)).is_err();
        if is_gone || stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

/// A session at an HTTPS shop, recorded by a browser with HTTP/2. Scripts and an image come from other hosts.
fn session() -> Value {
    let entry = |method: &str, url: &str, mime_type: &str, body: Option<&str>| {
        let mut request = json!({
            "method": method,
            "url": url,
            "httpVersion": "h2",
            "headers": [
                { "name": ":authority", "value": "shop.example" },
                { "name": ":method", "value": method },
                { "name": "host", "value": "shop.example" },
                { "name": "origin", "value": "https://shop.example" },
                { "name": "cookie", "value": "a=1" },
                { "name": "cookie", "value": "b=2" },
            ],
        });
        if let Some(body) = body {
            request["postData"] = json!({ "mimeType": "application/json", "text": body });
            let length = json!({ "name": "content-length", "value": "999" });
            request["headers"].as_array_mut().unwrap().push(length);
        }
        json!({ "request": request, "response": { "status": 200, "content": { "mimeType": mime_type } } })
    };
    json!({ "log": { "version": "1.2", "entries": [
        entry("GET", "https://shop.example/", "text/html", None),
        entry("GET", "https://cdn.example/a.js", "text/javascript", None),
        entry("POST", "https://shop.example/cart", "application/json", Some("{\"item\":7}")),
        entry("GET", "https://pixel.example/p.gif", "image/gif", None),
        entry("PUT", "https://shop.example/cart/1", "application/json", Some("{\"count\":2}")),
        entry("GET", "https://cdn.example/b.js", "text/javascript", None),
        entry("DELETE", "https://shop.example/cart/1", "application/json", None),
        entry("GET", "https://shop.example/", "text/html", None),
    ] } })
}

/// The requests of the session that are sent to `host`, in order.
fn expected(host: &str) -> Vec<String> {
    let all = format!("host={host} cookie=a=1; b=2 origin=http://{host}");
    vec![
        format!("GET / {all}"),
        format!("POST /cart {all} body={{\"item\":7}}"),
        format!("PUT /cart/1 {all} body={{\"count\":2}}"),
        format!("DELETE /cart/1 {all}"),
        format!("GET / {all}"),
    ]
}

const LEFT_OUT: &str = "left out 3 of 8 entries: other hosts (cdn.example 2, pixel.example 1)";

/// Replays the session against a recorder. Returns its address, the summary, and the requests of each connection.
fn replay(folder: &Path, flags: &[&str]) -> (String, String, BTreeMap<usize, Vec<String>>) {
    std::fs::write(folder.join("s.har"), session().to_string()).unwrap();
    let (address, requests) = recorder();
    let url = format!("http://{address}");
    let output = finish(weir(folder, &[&["load", &url, "-f", "s.har", "-w", "1"], flags].concat()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut by_connection: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (number, request) in requests.try_iter() {
        by_connection.entry(number).or_default().push(request);
    }
    (address.to_string(), text(&output.stdout), by_connection)
}

#[test]
fn a_har_recorded_over_https_is_replayed_in_order_on_every_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (host, summary, by_connection) = replay(folder.path(), &["-c", "3", "-n", "40"]);
    assert_eq!(by_connection.len(), 3);
    assert_eq!(by_connection.values().map(Vec::len).sum::<usize>(), 40);
    let expected = expected(&host);
    for sent in by_connection.values() {
        let session = expected.iter().cycle().take(sent.len());
        assert!(sent.iter().eq(session), "{sent:#?}");
    }
    assert!(summary.contains(LEFT_OUT), "{summary}");
}

#[test]
fn an_open_load_replays_a_har_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-c", "1", "-n", "12", "-r", "100/s", "--even"];
    let (host, _, by_connection) = replay(folder.path(), &flags);
    let sent: Vec<&String> = by_connection.values().flatten().collect();
    assert!(sent.into_iter().eq(expected(&host).iter().cycle().take(12)), "{by_connection:#?}");
}

#[test]
fn the_seed_decides_the_order_of_a_shuffled_har() {
    let folder = tempfile::tempdir().unwrap();
    let paths = |seed: &str| -> Vec<String> {
        let flags = ["-c", "1", "-n", "60", "--shuffle", "--seed", seed];
        let (host, _, by_connection) = replay(folder.path(), &flags);
        let expected = expected(&host);
        let sent: Vec<String> = by_connection.into_values().flatten().collect();
        assert!(sent.len() == 60 && sent.iter().all(|request| expected.contains(request)), "{sent:#?}");
        assert!(!sent.iter().eq(expected.iter().cycle().take(60)), "the order is not shuffled");
        sent.iter().map(|request| request.split(" host=").next().unwrap().to_owned()).collect()
    };
    assert_eq!(paths("1"), paths("1"));
    assert_ne!(paths("1"), paths("2"));
}

#[test]
fn a_har_is_replayed_over_https_and_http2() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.har"), session().to_string()).unwrap();
    for (origin, scheme, flags) in [
        (&["--tls"][..], "https", &["-k"][..]),
        (&["--tls"], "https", &["-k", "--streams", "3"]),
        (&[], "http", &["--http2"]),
    ] {
        let origin = Origin::start(folder.path(), free_port(), origin);
        let url = format!("{scheme}://{}", origin.address);
        let load = ["load", &url, "-f", "s.har", "-c", "2", "-n", "50", "--json"];
        let output = finish(weir(folder.path(), &[&load, flags].concat()));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let result = result_of(&output);
        assert_eq!(result["requests"]["completed"], 50, "{result}");
        assert_eq!(origin.stats()["requests"], 50);
        assert_eq!(result["left_out"]["entries"], 8);
        assert_eq!(result["left_out"]["other_hosts"], json!({ "cdn.example": 2, "pixel.example": 1 }));
        let routes: Vec<_> =
            result["routes"].as_array().unwrap().iter().map(|route| &route["name"]).collect();
        assert_eq!(routes, ["GET /", "POST /cart", "PUT /cart/:id", "DELETE /cart/:id"], "{result}");
    }
}
