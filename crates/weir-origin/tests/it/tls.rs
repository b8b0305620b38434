//! TLS: certificates, ALPN, session resumption, and both HTTP versions.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weir_document::Share;
use weir_origin::{FaultSpec, Handshakes, Http2Spec, Origin, OriginSpec, TlsSpec};

use crate::http2::{Http2, run};
use crate::{Client, check_counts, origin, spec};

fn made() -> TlsSpec {
    TlsSpec::Made { domains: vec!["a.example".into(), "*.b.example".into()], is_expired: false }
}

fn secure() -> OriginSpec {
    OriginSpec { tls: Some(made()), ..spec() }
}

/// The configuration of a client that trusts this CA and offers these protocols.
fn config(ca_pem: &str, protocols: &[&str]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

async fn connect(
    address: SocketAddr,
    name: &str,
    config: &Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::clone(config)).connect(name, TcpStream::connect(address).await?).await
}

/// Sends one HTTP/1.1 request and reads until the connection closes.
async fn get(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

fn ca_of(origin: &Origin) -> String {
    origin.ca_pem().expect("it was made on start").to_owned()
}

#[test]
fn alpn_selects_the_protocol_for_every_server_name() {
    let origin = origin(&secure());
    run(async {
        for name in ["localhost", "127.0.0.1", "::1", "a.example", "x.b.example"] {
            let config = Arc::new(config(&ca_of(&origin), &["h2", "http/1.1"]));
            let stream = connect(origin.address(), name, &config).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "{name}");
            let client = Http2::over(stream).await;
            let answer = client.get("/").await;
            assert_eq!((answer.status, answer.body.len()), (Some(200), 64));
        }
        for protocols in [&["http/1.1"][..], &[]] {
            let config = Arc::new(config(&ca_of(&origin), protocols));
            let mut stream = connect(origin.address(), "localhost", &config).await.unwrap();
            assert!(get(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
        }
    });
    let stats = origin.stats();
    check_counts(&stats, 7, &[(200, 7)]);
    assert_eq!(stats.tls, Some(Handshakes { done: 7, resumed: 0, failed: 0 }));
}

#[test]
fn large_bodies_are_complete() {
    let origin = origin(&OriginSpec { body_bytes: 5_000_000, ..secure() });
    run(async {
        let config = Arc::new(config(&ca_of(&origin), &["http/1.1"]));
        let text = get(&mut connect(origin.address(), "localhost", &config).await.unwrap()).await;
        assert_eq!(text.split_once("\r\n\r\n").unwrap().1.len(), 5_000_000);
        assert_eq!(origin.stats().bytes_sent, text.len() as u64);
    });
}

#[test]
fn sessions_are_resumed() {
    let origin = origin(&OriginSpec { workers: 2, ..secure() });
    run(async {
        let config = Arc::new(config(&ca_of(&origin), &["http/1.1"]));
        for _ in 0..5 {
            get(&mut connect(origin.address(), "localhost", &config).await.unwrap()).await;
        }
        let mut never = ClientConfig::clone(&config);
        never.resumption = Resumption::disabled();
        get(&mut connect(origin.address(), "localhost", &Arc::new(never)).await.unwrap()).await;
    });
    assert_eq!(origin.stats().tls, Some(Handshakes { done: 6, resumed: 4, failed: 0 }));
}

#[test]
fn an_expired_certificate_is_rejected_by_clients() {
    let origin =
        origin(&OriginSpec { tls: Some(TlsSpec::Made { domains: vec![], is_expired: true }), ..spec() });
    let error = run(async {
        let config = Arc::new(config(&ca_of(&origin), &["h2"]));
        connect(origin.address(), "localhost", &config).await.unwrap_err()
    });
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    assert!(
        matches!(
            cause,
            Some(Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. }
            ))
        ),
        "{error:?}"
    );
    let stats = origin.stats();
    assert_eq!((stats.requests, stats.tls.is_none_or(|tls| tls.resumed == 0)), (0, true));
}

#[test]
fn alpn_does_not_offer_http2_if_it_is_off() {
    let http2 = Http2Spec { is_off: true, ..Http2Spec::default() };
    let origin = origin(&OriginSpec { http2, ..secure() });
    run(async {
        let both = Arc::new(config(&ca_of(&origin), &["h2", "http/1.1"]));
        let stream = connect(origin.address(), "localhost", &both).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let http2_only = Arc::new(config(&ca_of(&origin), &["h2"]));
        assert!(connect(origin.address(), "localhost", &http2_only).await.is_err());
    });
}

#[test]
fn plain_text_can_reach_only_own_paths() {
    let origin = origin(&secure());
    let mut client = Client::connect(origin.address());
    assert_eq!(client.get("/__weir/stats").status, 200);
    let response = client.get("/");
    assert_eq!(response.status, 400);
    assert!(String::from_utf8(response.body).unwrap().contains("plain HTTP request sent to an HTTPS origin"));
    assert!(client.is_at_end());
    check_counts(&origin.stats(), 0, &[(400, 1)]);
}

#[test]
fn faults_apply_over_tls() {
    let faults = FaultSpec { resets: Share(0.5), half: Share(0.5), ..FaultSpec::default() };
    let origin = origin(&OriginSpec { faults, ..secure() });
    run(async {
        let config = Arc::new(config(&ca_of(&origin), &["http/1.1"]));
        let mut ends = [0, 0];
        for _ in 0..10 {
            let mut stream = connect(origin.address(), "localhost", &config).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            let mut bytes = Vec::new();
            match stream.read_to_end(&mut bytes).await {
                Ok(_) => ends[0] += usize::from(bytes.ends_with(b"uv")),
                Err(error) => ends[1] += usize::from(error.kind() == std::io::ErrorKind::ConnectionReset),
            }
        }
        assert_eq!(ends, [5, 5]);
    });
    check_counts(&origin.stats(), 10, &[]);
}

#[test]
fn a_given_certificate_is_served() {
    let key = rcgen::KeyPair::generate().unwrap();
    let cert =
        rcgen::CertificateParams::new(["given.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let file = |name: &str, text: String| {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (cert_path, key_path) = (file("given.pem", cert.pem()), file("given.key", key.serialize_pem()));
    let given = TlsSpec::Given { cert: cert_path.clone(), key: key_path };
    let origin = origin(&OriginSpec { tls: Some(given), ..spec() });
    assert!(origin.ca_pem().is_none());
    run(async {
        let config = Arc::new(config(&cert.pem(), &["http/1.1"]));
        let mut stream = connect(origin.address(), "given.example", &config).await.unwrap();
        assert!(get(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
    });
    // The file with the certificate contains no key.
    let wrong = TlsSpec::Given { cert: cert_path.clone(), key: cert_path };
    let error = weir_origin::start(&OriginSpec { tls: Some(wrong), ..spec() }).unwrap_err();
    assert!(error.is_wrong_use() && error.to_string().contains("given.pem"), "{error}");
}
