//! Why a server's certificate was rejected, in words that a program can tell apart again.

use rustls::CertificateError;

/// A server's certificate that was rejected, as far as somebody can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateRejection {
    /// It is signed by an authority that is not trusted, or by itself.
    UnknownAuthority,
    /// It is an authority's own certificate, which a server cannot use.
    AuthorityAsServer,
    /// It is for another name than the one that was asked for.
    WrongName,
    /// Its time is over.
    Expired,
    /// Its time has not begun.
    NotYetValid,
}

/// All of them with what a record says of each; of a wrong name only the beginning.
const SAID: [(CertificateRejection, &str); 5] = [
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
    /// The fault that an entry of [`weir_results::LoadResult::said`] is about.
    pub fn of_said(said: &str) -> Option<Self> {
        SAID.iter().find(|(_, start)| said.starts_with(start)).map(|(fault, _)| *fault)
    }

    /// What a record says of it.
    fn said(self) -> &'static str {
        SAID.iter().find(|(fault, _)| *fault == self).map_or("", |(_, said)| said)
    }
}

/// What is said of a rejected certificate; `None` where the library's own words must do.
pub(crate) fn said(error: &CertificateError) -> Option<String> {
    let fault = match error {
        CertificateError::UnknownIssuer => CertificateRejection::UnknownAuthority,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateRejection::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateRejection::NotYetValid
        }
        CertificateError::NotValidForNameContext { expected, .. } => {
            return Some(format!("{}{}", CertificateRejection::WrongName.said(), expected.to_str()));
        }
        // The library has no variant of its own for it.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            CertificateRejection::AuthorityAsServer
        }
        _ => return None,
    };
    Some(fault.said().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_certificates_is_told_apart_again() {
        for (error, fault) in [
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
            assert_eq!(CertificateRejection::of_said(&said(&error).unwrap()), Some(fault), "{error:?}");
        }
        assert_eq!(said(&CertificateError::BadSignature), None);
        assert_eq!(CertificateRejection::of_said("TLS: closed during the handshake"), None);
    }
}
