//! Checks TLS, client certificates and bearer tokens.

use super::problem::Problems;
use crate::scenario::{CertificateScope, ClientCertificate, Load, Scenario};

/// Maximum number of bearer tokens: every driver writes them into its configuration.
const BEARER_MAX: u32 = 100_000;

/// Checks the TLS settings, client certificates and tokens of the topology.
pub(super) fn check_secure(scenario: &Scenario, found: &mut Problems) {
    let topology = &scenario.topology;
    let is_required = topology.client_certificate == ClientCertificate::Required;
    if scenario.is_elsewhere() {
        let asked = [
            ("tls", topology.tls, "remove `tls`; for TLS, write https:// in the `url` of the gateway"),
            (
                "client_certificate",
                is_required,
                "remove `client_certificate`, and add `tls: { cert: FILE, key: FILE }` to the gateway",
            ),
            (
                "bearer",
                topology.bearer > 0,
                "remove `bearer`, and set `tokens` of the loads to a file of bearer tokens",
            ),
        ];
        for (field, _, remedy) in asked.into_iter().filter(|(_, is_asked, _)| *is_asked) {
            found.add(&["topology", field], "weir cannot configure this on a remote gateway", remedy);
        }
        return;
    }
    if is_required && !topology.tls {
        let remedy = "add `tls: true` to the topology, or remove `client_certificate`";
        found.add(&["topology", "client_certificate"], "client certificates need TLS", remedy);
    }
    if topology.certificates == CertificateScope::Each && !topology.tls {
        let remedy = "add `tls: true` to the topology, or remove `certificates`";
        found.add(&["topology", "certificates"], "certificates need TLS", remedy);
    }
    if topology.bearer > BEARER_MAX {
        found.add_range(&["topology", "bearer"], topology.bearer, format!("use at most {BEARER_MAX}"));
    }
}

/// Rejects TLS settings and tokens of a load that contradict the certificates and tokens that weir creates.
pub(super) fn check_secure_load(scenario: &Scenario, name: &str, load: &Load, found: &mut Problems) {
    if load.tokens.is_some() && scenario.topology.bearer > 0 {
        let message = "`tokens` and `topology.bearer` cannot be combined: a gateway accepts the tokens of the load or \
                       the tokens of the topology";
        found.add(&["loads", name, "tokens"], message, "remove one of the two");
    }
    let Some(tls) = &load.tls else { return };
    if !scenario.topology.tls {
        let message = "the gateways do not listen for TLS";
        let remedy = "add `tls: true` to the topology, or remove `tls` from the load";
        return found.add(&["loads", name, "tls"], message, remedy);
    }
    let given = [
        ("insecure", tls.insecure),
        ("ca", tls.ca.is_some()),
        ("cert", tls.cert.is_some()),
        ("key", tls.key.is_some()),
        ("sni", tls.sni.is_some()),
    ];
    for (field, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let message = format!("weir creates the certificates of every cell, so a load cannot set `{field}`");
        let remedy = format!("remove `{field}`: a load can set only `version` and `resumption`");
        found.add(&["loads", name, "tls", field], message, remedy);
    }
}
