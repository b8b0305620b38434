//! What TLS, client certificates and bearer tokens cannot be.

use super::{Checked, problem};
use crate::scenario::{CertificateScope, ClientCertificate, Load, Scenario};

/// Greatest number of bearer tokens: every driver writes them into its configuration.
const BEARER_MAX: u32 = 100_000;

/// Checks what the topology asks of clients.
pub(super) fn check_secure(scenario: &Scenario) -> Checked {
    let topology = &scenario.topology;
    let is_required = topology.client_certificate == ClientCertificate::Required;
    if scenario.is_elsewhere() {
        let asked = [
            ("tls", topology.tls, "write https:// in its `url`"),
            ("client_certificate", is_required, "give the gateway `tls: { cert: FILE, key: FILE }`"),
            ("bearer", topology.bearer > 0, "give the loads a file of `tokens` that it knows"),
        ];
        if let Some((field, _, remedy)) = asked.into_iter().find(|(_, is_asked, _)| *is_asked) {
            let message = format!(
                "`topology.{field}` of a gateway that runs elsewhere, which weir configures nothing of"
            );
            return Err(problem(&["topology", field], message, remedy));
        }
    }
    if is_required && !topology.tls {
        let message = "client certificates without TLS";
        return Err(problem(
            &["topology", "client_certificate"],
            message,
            "add `tls: true`, or leave it out",
        ));
    }
    if topology.certificates == CertificateScope::Each && !topology.tls {
        let message = "a certificate for each domain without TLS";
        return Err(problem(&["topology", "certificates"], message, "add `tls: true`, or leave it out"));
    }
    if topology.bearer > BEARER_MAX {
        let message = format!("{} bearer tokens", topology.bearer);
        return Err(problem(&["topology", "bearer"], message, format!("give at most {BEARER_MAX}")));
    }
    Ok(())
}

/// Refuses what a load says of TLS and tokens beside what the rig makes.
pub(super) fn check_secure_load(scenario: &Scenario, name: &str, load: &Load) -> Checked {
    if load.tokens.is_some() && scenario.topology.bearer > 0 {
        let message = format!(
            "the load `{name}` has tokens of its own, and the gateways know those that the rig makes (`topology.bearer`)"
        );
        return Err(problem(&["loads", name, "tokens"], message, "keep one of the two"));
    }
    let Some(tls) = &load.tls else { return Ok(()) };
    if !scenario.topology.tls {
        let message = format!("the load `{name}` speaks TLS, and no gateway listens for it (`topology.tls`)");
        let remedy = "add `tls: true` to the topology, or leave it out";
        return Err(problem(&["loads", name, "tls"], message, remedy));
    }
    let given = [
        ("insecure", tls.insecure),
        ("ca", tls.ca.is_some()),
        ("cert", tls.cert.is_some()),
        ("key", tls.key.is_some()),
        ("sni", tls.sni.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((field, _)) => {
            let message =
                format!("the load `{name}` has `{field}`, and the rig makes the certificates of every cell");
            let remedy = "leave it out; `version` and `resumption` may be given";
            Err(problem(&["loads", name, "tls", field], message, remedy))
        }
        None => Ok(()),
    }
}
