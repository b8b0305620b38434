//! HTTP/2 servers that send or expect SETTINGS at unusual times, flood the client, or read late.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use weir_engine::{Body, LoadSpec, ProtocolSpec, Resumption, TlsSpec, TlsVersion};
use weir_results::Errors;

use crate::load::{closed, drive};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const SETTINGS_ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0PINGPING";
/// SETTINGS and WINDOW_UPDATE for flow-control windows of 1 GiB, for streams and for the connection.
const WIDE: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x04\x40\0\0\0\0\0\x04\x08\0\0\0\0\0\x3f\xff\0\0";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// The header field `:status: 200` (RFC 7541, appendix A).
const OK: u8 = 0x88;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn read_frame(peer: &mut impl Read) -> io::Result<(u8, u8, u32)> {
    let mut header = [0; 9];
    peer.read_exact(&mut header)?;
    let [a, b, c, kind, flags, stream @ ..] = header;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    peer.read_exact(&mut payload)?;
    Ok((kind, flags, u32::from_be_bytes(stream)))
}

/// Responds to every request with an empty 200, and to the client's SETTINGS with the bytes of `greeting`.
fn answer(mut peer: impl Read + Write, greeting: &[u8]) -> io::Result<()> {
    let mut preface = [0; 24];
    peer.read_exact(&mut preface)?;
    assert_eq!(preface, PREFACE);
    loop {
        let answer = match read_frame(&mut peer)? {
            (4, 0, _) => greeting.to_vec(),
            (HEADERS, _, stream) => frame(HEADERS, END_STREAM | END_HEADERS, stream, &[OK]),
            _ => continue,
        };
        peer.write_all(&answer)?;
        peer.flush()?;
    }
}

/// Serves each connection on its own thread. The threads run until the test process ends.
fn serve(
    listener: TcpListener,
    act: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> SocketAddr {
    let address = listener.local_addr().unwrap();
    let act = Arc::new(act);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let act = Arc::clone(&act);
            std::thread::spawn(move || act(client.unwrap()));
        }
    });
    address
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn http2(address: SocketAddr, count: u64) -> LoadSpec {
    LoadSpec { protocol: ProtocolSpec::Http2, ..closed(address, count) }
}

/// A TLS server that sends its HTTP/2 SETTINGS in the same segment as the end of its handshake.
fn greets_with_its_handshake() -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(["peer.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    // With TLS 1.3 a server may send data before the client's Finished.
    config.send_half_rtt_data = true;
    let config = Arc::new(config);
    serve(listener(), move |mut client| {
        let mut session = ServerConnection::new(Arc::clone(&config)).unwrap();
        // The session buffers the SETTINGS until it can send data.
        session.writer().write_all(SETTINGS)?;
        while session.is_handshaking() {
            session.read_tls(&mut client)?;
            session.process_new_packets().map_err(io::Error::other)?;
            let mut segment = Vec::new();
            while session.wants_write() {
                session.write_tls(&mut segment)?;
            }
            client.write_all(&segment)?;
        }
        // The server sends nothing more before the first request.
        answer(StreamOwned::new(session, client), b"")
    })
}

#[test]
fn settings_in_the_segment_of_the_handshake_are_read() {
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let tls = TlsSpec {
            sni: Some("peer.example".into()),
            insecure: true,
            resumption: Some(Resumption(0.0)),
            version: Some(version),
            ..TlsSpec::default()
        };
        let spec = LoadSpec { tls: Some(tls), ..http2(greets_with_its_handshake(), 40) };
        let record = drive(&spec);
        assert_eq!((record.result.requests.completed, record.result.errors), (40, Errors::default()));
        let (tls, said) = (record.result.tls.unwrap(), record.result.said);
        assert!(tls.handshakes == 4 && said.is_empty(), "{version:?}: {tls:?} {said:?}");
    }
}

#[test]
fn a_server_that_waits_for_our_settings_gets_them_with_the_preface() {
    let address = serve(listener(), |client| answer(client, &[SETTINGS, SETTINGS_ACK].concat()));
    let record = drive(&http2(address, 40));
    assert_eq!((record.result.requests.completed, record.result.errors), (40, Errors::default()));
    assert_eq!(record.generator.connections_opened, 4, "none was given up");
}

#[test]
fn a_flood_of_pings_or_settings_closes_the_connection_with_its_cause() {
    /// The server stops after this number of bytes, which is far more than the kernel can buffer for a connection.
    const MOST: u64 = 256 << 20;
    for frame in [PING, SETTINGS] {
        let listener = listener();
        socket2::SockRef::from(&listener).set_recv_buffer_size(4_096).unwrap();
        let (most, block) = (Arc::new(AtomicU64::new(0)), frame.repeat(4_096));
        let seen = Arc::clone(&most);
        let address = serve(listener, move |mut client| {
            // This server never reads. The timeout keeps its writes from blocking forever.
            client.set_write_timeout(Some(Duration::from_secs(20)))?;
            client.write_all(SETTINGS)?;
            for nth in 1.. {
                seen.fetch_max(nth * block.len() as u64, Ordering::Relaxed);
                if nth * block.len() as u64 > MOST {
                    break;
                }
                client.write_all(&block)?;
            }
            Ok(())
        });
        let record = drive(&LoadSpec { connections: 1, ..http2(address, 2) });
        let requests = record.result.requests;
        assert_eq!((requests.completed, requests.failed), (0, 2), "{requests:?}");
        assert!(record.result.errors.http2 >= 2, "{:?}", record.result.errors);
        let said = record.result.said;
        assert!(
            said.keys().any(|said| said.contains("floods the connection with PING or SETTINGS")),
            "{said:?}"
        );
        // The limit below covers the kernel's buffers on both sides and the client's own limits.
        let most = most.load(Ordering::Relaxed);
        assert!(most < 64 << 20, "{most} bytes were read from a server that read no replies");
    }
}

#[test]
fn a_server_that_reads_late_does_not_time_out() {
    let listener = listener();
    socket2::SockRef::from(&listener).set_recv_buffer_size(4_096).unwrap();
    let address = serve(listener, |mut client| {
        let mut preface = [0; 24];
        client.read_exact(&mut preface)?;
        client.write_all(&[WIDE, SETTINGS_ACK].concat())?;
        let stream = loop {
            if let (HEADERS, _, stream) = read_frame(&mut client)? {
                break stream;
            }
        };
        // The request body fills the client's output buffer, so the client cannot reply to these PINGs yet. The server
        // sends the response right after the PINGs.
        let mut writer = client.try_clone()?;
        std::thread::sleep(Duration::from_millis(50));
        let mut answer = PING.repeat(100);
        answer.extend(frame(HEADERS, END_HEADERS, stream, &[OK]));
        (0..200).for_each(|_| answer.extend(frame(DATA, 0, stream, &[b'x'; 16_000])));
        answer.extend(frame(DATA, END_STREAM, stream, b""));
        let writing = std::thread::spawn(move || writer.write_all(&answer));
        std::thread::sleep(Duration::from_millis(50));
        while read_frame(&mut client).is_ok() {}
        writing.join().unwrap()
    });
    let mut spec = LoadSpec { connections: 1, timeout_ns: 20_000_000_000, ..http2(address, 1) };
    spec.requests[0].method = "POST".into();
    spec.requests[0].body = Body::Text("b".repeat(12_000_000));
    let record = drive(&spec);
    assert_eq!(
        (record.result.requests.completed, record.result.errors),
        (1, Errors::default()),
        "{:?}",
        record.result.said
    );
    assert!(record.result.bytes.received > 200 * 16_000);
}
