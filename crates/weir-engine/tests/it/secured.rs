//! TLS servers that end their sessions in unusual ways.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};
use weir_engine::{LoadSpec, Resumption, TlsSpec};
use weir_results::Errors;

use crate::load::{closed, drive};

/// A server that sends its response and close_notify in one segment, and keeps the socket open.
fn ends_with_its_answer(answer: &'static str) -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(["peer.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The threads run until the test process ends.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            std::thread::spawn(move || serve(client.unwrap(), session, answer));
        }
    });
    address
}

fn serve(mut client: TcpStream, mut session: ServerConnection, answer: &str) -> std::io::Result<()> {
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n\r\n") {
        session.complete_io(&mut client)?;
        let mut some = [0; 1024];
        if let Ok(bytes) = session.reader().read(&mut some) {
            heard.extend_from_slice(&some[..bytes]);
        }
    }
    session.writer().write_all(answer.as_bytes())?;
    session.send_close_notify();
    let mut segment = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut segment)?;
    }
    client.write_all(&segment)?;
    std::io::copy(&mut client, &mut std::io::sink()).map(|_| ())
}

#[test]
fn a_session_ends_with_close_notify_although_the_socket_is_open() {
    let until_the_end = "HTTP/1.0 200 OK\r\n\r\nhello";
    let with_length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for answer in [until_the_end, with_length] {
        let tls = TlsSpec {
            sni: Some("peer.example".into()),
            insecure: true,
            resumption: Some(Resumption(0.0)),
            ..TlsSpec::default()
        };
        let spec = LoadSpec { tls: Some(tls), ..closed(ends_with_its_answer(answer), 40) };
        let record = drive(&spec);
        assert_eq!((record.result.requests.completed, record.result.errors), (40, Errors::default()));
        assert_eq!(record.whole.sent, 40, "{answer}");
    }
}
