//! Loads for gateways with TLS or bearer tokens.

use weir_engine::{TlsSpec, TlsVersion};
use weir_results::Measurement;
use weir_rig::{Credentials, tokens};

use super::setting::{Setting, requests};
use super::{Load, Scenario};

/// The TLS version, cipher suite, key exchange and ALPN protocol that every gateway must negotiate if the client
/// supports TLS 1.2 and 1.3. The format is the same as in `negotiated` of a load record.
pub(crate) const NEGOTIATED: &str = "TLS 1.3 TLS13_AES_128_GCM_SHA256 X25519 http/1.1";
/// The TLS parameters that every gateway must negotiate with a client that supports only TLS 1.2.
const NEGOTIATED_12: &str = "TLS 1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 http/1.1";

/// Adds TLS files to `load`, and bearer tokens to `setting`. Without `credentials`, the target is an upstream without
/// TLS. Direct cells send the same tokens as cells with gateways.
pub(crate) fn secured(
    scenario: &Scenario,
    load: &Load,
    mut setting: Setting,
    credentials: Option<&Credentials>,
    tokens: Vec<String>,
) -> (Load, Setting) {
    setting.spec.tokens = tokens;
    let mut load = load.clone();
    let Some((credentials, files)) = credentials.and_then(|c| Some((c, c.certificates.as_ref()?))) else {
        return (Load { tls: None, ..load }, setting);
    };
    let shows = credentials.shows_certificate;
    load.tls = Some(TlsSpec {
        ca: Some(files.ca.clone()),
        cert: shows.then(|| files.client.clone()),
        key: shows.then(|| files.client_key.clone()),
        ..load.tls.unwrap_or_default()
    });
    let hosts = scenario.topology.hosts();
    let is_plain = load.mix.is_empty() && load.file.is_none() && load.domains.is_empty();
    if hosts.len() > 1 && is_plain {
        // Requests of a connection use the domain of its SNI, because servers can reject requests for another host.
        let direct = setting.rewrite.is_some();
        setting.spec.requests = requests(scenario, &["{domain}".to_owned()], load.popularity, direct);
        load.domains = hosts;
    }
    (load, setting)
}

/// As [`secured`], for checks before a gateway runs: without certificate files, and with at most one token.
pub(crate) fn supposed(scenario: &Scenario, load: &Load, mut setting: Setting) -> (Load, Setting) {
    let topology = &scenario.topology;
    let tls = topology.tls.then(|| load.tls.clone().unwrap_or_default());
    // One token is enough for a check, and faster to create than thousands.
    setting.spec.tokens = tokens(0, topology.bearer.min(1));
    (Load { tls, ..load.clone() }, setting)
}

/// Notes a negotiated TLS version or cipher that differs from the required one.
pub(crate) fn note(scenario: &Scenario, load: &Load, measurement: &Measurement, unequal: &mut Vec<String>) {
    let Some(tls) = measurement.record.result.tls.as_ref().filter(|_| scenario.topology.tls) else { return };
    let version = load.tls.as_ref().and_then(|tls| tls.version);
    let wanted = if version == Some(TlsVersion::V12) { NEGOTIATED_12 } else { NEGOTIATED };
    for other in tls.negotiated.keys().filter(|negotiated| *negotiated != wanted) {
        let said = format!("negotiated {other}, but the scenario requires {wanted} of every gateway");
        if !unequal.contains(&said) {
            unequal.push(said);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use weir_engine::Resumption;
    use weir_rig::Certificates;

    use super::*;
    use crate::scenario::setting::setting;

    fn credentials(shows_certificate: bool) -> Credentials {
        let file = |name: &str| PathBuf::from(name);
        let certificates = Certificates {
            ca: file("ca"),
            server: file("server"),
            server_key: file("server.key"),
            client: file("client"),
            client_key: file("client.key"),
            each: Vec::new(),
            renewed: None,
            clients: BTreeMap::new(),
        };
        Credentials { certificates: Some(certificates), shows_certificate, token: None }
    }

    /// The specification for the load engine, for a scenario with this topology and load.
    fn asked(topology: &str, load: &str, credentials: Option<&Credentials>) -> weir_engine::LoadSpec {
        let text = format!(
            "name: x\ngateways: [weir]\ntopology: {{ {topology} }}\nloads: {{ l: {{ model: closed{load} }} }}\n"
        );
        let scenario: Scenario = weir_document::read("x.yaml", &text).unwrap();
        let load = scenario.loads.named("l").unwrap();
        let hosts = scenario.topology.hosts();
        let requests = requests(&scenario, &hosts, load.popularity, false);
        let setting = setting(&scenario, &["127.0.0.1:1".parse().unwrap()], requests, false, 7);
        let (load, setting) =
            secured(&scenario, load, setting, credentials, tokens(7, scenario.topology.bearer));
        load.spec(setting).unwrap()
    }

    #[test]
    fn the_load_gets_certificates_and_tokens_of_the_rig() {
        let spec = asked(
            "paths: [/a], tls: true, bearer: 2",
            ", tls: { resumption: off }",
            Some(&credentials(false)),
        );
        let tls = spec.tls.unwrap();
        assert_eq!((tls.ca, tls.cert, tls.key), (Some("ca".into()), None, None));
        assert_eq!((tls.sni, spec.host.as_str()), (None, "gateway.test"));
        assert_eq!((tls.resumption, tls.insecure), (Some(Resumption(0.0)), false));
        assert_eq!(spec.tokens, tokens(7, 2));
        let tls = asked("paths: [/a], tls: true", "", Some(&credentials(true))).tls.unwrap();
        assert_eq!((tls.cert, tls.key), (Some("client".into()), Some("client.key".into())));
    }

    #[test]
    fn direct_loads_are_plain_and_send_the_same_requests() {
        let spec = asked("paths: [/a], tls: true, bearer: 2", ", tls: { version: 1.2 }", None);
        assert!(spec.tls.is_none());
        assert_eq!(spec.tokens, tokens(7, 2));
    }

    #[test]
    fn each_connection_has_one_of_several_domains() {
        let spec = asked("paths: [/a], tls: true, domains: 3", "", Some(&credentials(false)));
        assert_eq!(spec.domains.len(), 3);
        assert_eq!(spec.requests.len(), 1);
        assert_eq!(spec.requests[0].headers, [("Host".to_owned(), "{domain}".to_owned())]);
        let plain = asked("paths: [/a], domains: 3", "", None);
        assert_eq!((plain.domains.len(), plain.requests.len()), (0, 3));
    }

    #[test]
    fn the_first_domains_and_paths_are_requested_most() {
        let popular = ", popularity: 'zipf:2'";
        let with = "domains: 2, paths: 2";
        let weights = [1.0, 0.25];
        let of_requests = |spec: &weir_engine::LoadSpec| {
            spec.requests.iter().map(|request| request.weight).collect::<Vec<_>>()
        };
        let secure = asked(&format!("tls: true, {with}"), popular, Some(&credentials(false)));
        assert_eq!(secure.domain_weights, weights);
        assert_eq!(of_requests(&secure), weights);
        // Without TLS each request has its own domain, so its weight is the weight of the domain times the weight of
        // the path.
        let plain = asked(with, popular, None);
        assert!(plain.domain_weights.is_empty());
        let both = [1.0, 0.25].map(|of_domain| weights.map(|of_path| of_domain * of_path));
        assert_eq!(of_requests(&plain), both.concat());
        let even = asked(&format!("tls: true, {with}"), ", popularity: uniform", Some(&credentials(false)));
        assert_eq!(even.domain_weights, [1.0, 1.0]);
        let kept = asked(&format!("tls: true, {with}"), "", Some(&credentials(false)));
        assert!(kept.domain_weights.is_empty() && of_requests(&kept) == [1.0; 2]);
    }
}
