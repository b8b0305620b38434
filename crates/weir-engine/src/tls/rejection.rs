//! Why a server's certificate was rejected, as messages from which a program can recover the reason.

use rustls::CertificateError;

/// A reason to reject a server's certificate that a user can fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateRejection {
    /// It is signed by an untrusted authority, or self-signed.
    UnknownAuthority,
    /// It is a CA certificate, which a server cannot use.
    AuthorityAsServer,
    /// It does not match the requested server name.
    WrongName,
    /// It has expired.
    Expired,
    /// It is not valid yet.
    NotYetValid,
}

/// The message of each in a record; for a wrong name only its prefix.
const MESSAGES: [(CertificateRejection, &str); 5] = [
    (
        CertificateRejection::UnknownAuthority,
        "TLS: the server's certificate is signed by an unknown authority",
    ),
    (
        CertificateRejection::AuthorityAsServer,
        "TLS: the server's certificate is that of an authority (CA), not of a server",
    ),
    (CertificateRejection::WrongName, "TLS: the server's certificate is not for "),
    (CertificateRejection::Expired, "TLS: the server's certificate has expired"),
    (CertificateRejection::NotYetValid, "TLS: the server's certificate is not valid yet"),
];

impl CertificateRejection {
    /// The rejection that an entry of [`weir_results::LoadResult::said`] reports.
    pub fn of_said(said: &str) -> Option<Self> {
        MESSAGES.iter().find(|(_, start)| said.starts_with(start)).map(|(rejection, _)| *rejection)
    }

    /// Its message in a record.
    fn message(self) -> &'static str {
        MESSAGES.iter().find(|(rejection, _)| *rejection == self).map_or("", |(_, message)| message)
    }
}

/// The message for a rejected certificate; `None` if the library's own message is used.
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
        // The library has no separate variant for it.
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
        assert_eq!(CertificateRejection::of_said("TLS: closed during the handshake"), None);
    }
}
