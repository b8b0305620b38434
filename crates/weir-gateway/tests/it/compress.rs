//! Compressed responses as curl reads them, and the memory that they hold.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::process::{Gateway, connect};

/// An origin that answers every request with this text.
fn origin(text: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let fields = format!("Content-Type: text/plain\r\nETag: \"1\"\r\nContent-Length: {}", text.len());
    let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{text}");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || {
                while stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn curl_reads_compressed_responses() {
    let text: String = (0..20_000).map(|line| format!("line {line} of a long text\n")).collect();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes:\n\
         - {{ exact: /gzip, backend: b, compress: {{ gzip: 1 }} }}\n\
         - {{ exact: /br, backend: b, compress: {{ brotli: 1 }} }}\n\
         - {{ path: /, backend: b }}\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}\ndrain: {{ delay: 0s }}\n",
        origin(&text)
    ));
    let heads = gateway.dir.path().join("heads");
    for (path, coding) in [("gzip", Some("gzip")), ("br", Some("br")), ("plain", None)] {
        let mut command = Command::new("curl");
        command.args(["-sS", "--noproxy", "*", "--compressed", "-D"]).arg(&heads);
        let output =
            command.arg(format!("http://{}/{path}", gateway.address)).output().expect("curl is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == text.as_bytes(), "{path}");
        let head = std::fs::read_to_string(&heads).expect("a head");
        let reported = head.lines().find_map(|line| line.strip_prefix("Content-Encoding: "));
        assert_eq!(reported, coding, "{head}");
        let tag = if coding.is_some() { "ETag: W/\"1\"" } else { "ETag: \"1\"" };
        assert!(head.lines().any(|line| line == tag), "{head}");
    }
}

/// Maximum memory per compressed response, including its buffers and connections: for gzip, then for brotli.
const GZIP_BYTES_MAX: u64 = 600 << 10;
const BROTLI_BYTES_MAX: u64 = 4096 << 10;

/// Concurrent responses.
const STREAMS: usize = 16;

/// An origin whose responses start with `bytes` of text and never end. It counts the responses whose text was sent.
fn endless_origin(bytes: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let text: String = (0..bytes / 20).map(|line| format!("line {line:>14}\n")).collect();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{text}");
    let (answer, sent) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&sent);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
            std::thread::spawn(move || {
                let read = stream.read(&mut [0; 4096]).expect("a request");
                assert!(read > 0);
                // The send buffer is small. So once the text is written, the gateway has read most of it.
                rustix::net::sockopt::set_socket_send_buffer_size(&stream, 32 << 10).expect("a buffer");
                stream.write_all(answer.as_bytes()).expect("it is read");
                count.fetch_add(1, Ordering::SeqCst);
                // Waits until the gateway closes the connection.
                let _ = stream.read(&mut [0]);
            });
        }
    });
    (address, sent)
}

#[test]
fn a_compressed_response_stays_below_its_memory_limit() {
    for (coding, level, most) in [("gzip", "gzip: 9", GZIP_BYTES_MAX), ("br", "brotli: 6", BROTLI_BYTES_MAX)]
    {
        let (origin, sent) = endless_origin(1 << 20);
        let gateway = Gateway::start(&format!(
            "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
             routes: [{{ path: /, backend: b, compress: {{ {level} }} }}]\n\
             backends: {{ b: {{ endpoints: ['{origin}'] }} }}\ndrain: {{ delay: 0s }}\n"
        ));
        let before = gateway.resident_bytes();
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {coding}\r\n\r\n");
        let clients: Vec<TcpStream> = (0..STREAMS)
            .map(|_| {
                let mut client = connect(gateway.address);
                client.write_all(request.as_bytes()).expect("it is read");
                let mut reader = client.try_clone().expect("a descriptor");
                // Reads until the test closes the connection.
                std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
                client
            })
            .collect();
        gateway.wait_for("the responses", |g| g.stat("responses") == STREAMS as u64);
        gateway.wait_for("the text of all upstreams", |_| sent.load(Ordering::SeqCst) == STREAMS);
        let each = gateway.resident_bytes().saturating_sub(before) / STREAMS as u64;
        println!("{coding}: {} KiB per response", each >> 10);
        assert!(each <= most, "{coding}: {} KiB per response", each >> 10);
        assert!(each > 64 << 10, "{coding}: {each} bytes per response is less than any coder needs");
        drop(clients);
    }
}
