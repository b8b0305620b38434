//! Why the server's certificate was rejected. The messages are constant, so that a program can find the reason in
//! them.

use rustls::CertificateError;

/// Why the server's certificate was rejected. Only reasons that a user can fix have a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateRejection {
    /// The certificate is signed by an untrusted authority, or by itself.
    UnknownAuthority,
    /// The certificate is a CA certificate, which a server cannot use.
    AuthorityAsServer,
    /// The certificate does not match the requested server name.
    WrongName,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotYetValid,
}

/// The message of each rejection in a record. For a wrong name, this is the beginning of the message, and the
/// expected name follows.
const MESSAGES: [(CertificateRejection, &str); 5] = [
    (
        CertificateRejection::UnknownAuthority,
        "TLS: the server's certificate is signed by an unknown authority",
    ),
    (
        CertificateRejection::AuthorityAsServer,
        "TLS: the server's certificate is a CA certificate, not a server certificate",
    ),
    (CertificateRejection::WrongName, "TLS: the server's certificate is not for "),
    (CertificateRejection::Expired, "TLS: the server's certificate has expired"),
    (CertificateRejection::NotYetValid, "TLS: the server's certificate is not valid yet"),
];

impl CertificateRejection {
    /// Returns the rejection that a message in [`weir_results::LoadResult::said`] reports, if any.
    pub fn of_said(said: &str) -> Option<Self> {
        MESSAGES.iter().find(|(_, start)| said.starts_with(start)).map(|(rejection, _)| *rejection)
    }

    /// The message that a record contains for this rejection.
    fn message(self) -> &'static str {
        MESSAGES.iter().find(|(rejection, _)| *rejection == self).map_or("", |(_, message)| message)
    }
}

/// Returns the message for a rejected certificate; `None` if the message of the TLS library is used instead.
pub(crate) fn message(error: &CertificateError) -> Option<String> {
    let rejection = match error {
        CertificateError::UnknownIssuer => CertificateRejection::UnknownAuthority,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateRejection::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateRejection::NotYetValid
        }
        CertificateError::NotValidForNameContext { expected, .. } => {
            return Some(format!("{}{}", CertificateRejection::WrongName.message(), expected.to_str()));
        }
        // The TLS library has no variant of its own for this error.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            CertificateRejection::AuthorityAsServer
        }
        _ => return None,
    };
    Some(rejection.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_rejections_are_recognized() {
        for (error, rejection) in [
            (CertificateError::UnknownIssuer, CertificateRejection::UnknownAuthority),
            (CertificateError::Expired, CertificateRejection::Expired),
            (CertificateError::NotValidYet, CertificateRejection::NotYetValid),
            (
                CertificateError::NotValidForNameContext {
                    expected: "a.example".try_into().unwrap(),
                    presented: Vec::new(),
                },
                CertificateRejection::WrongName,
            ),
        ] {
            assert_eq!(
                CertificateRejection::of_said(&message(&error).unwrap()),
                Some(rejection),
                "{error:?}"
            );
        }
        assert_eq!(message(&CertificateError::BadSignature), None);
        assert_eq!(CertificateRejection::of_said("TLS: connection closed during the handshake"), None);
    }
}
