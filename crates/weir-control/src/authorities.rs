//! The CA certificates that the system trusts, as if they were in one PEM file that the configuration names.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_config::Content;

/// The certificates in PEM: from `SSL_CERT_FILE` and `SSL_CERT_DIR` if they are set, otherwise from the default
/// location of the system.
///
/// # Errors
/// If there is no certificate. Certificates that cannot be read are skipped.
pub(crate) fn system_authorities() -> io::Result<Content> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let reason = found.errors.first().map_or("no CA certificate found".to_owned(), ToString::to_string);
        return Err(io::Error::other(reason));
    }
    let mut text = String::new();
    for certificate in &found.certs {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        STANDARD.encode_string(certificate, &mut text);
        text.push_str("\n-----END CERTIFICATE-----\n");
    }
    Ok(text.into_bytes().into())
}
