//! Validity periods of certificates.

use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

/// The validity of a certificate: its first and last second, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) first_s: u64,
    pub(crate) last_s: u64,
}

const DAY_S: u64 = 24 * 3600;

impl Validity {
    /// Reads the validity of `certificate`; `None` if that fails.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Validity> {
        // webpki exposes the validity only in its errors, so verify the certificate at two extreme times. webpki checks
        // the time first, so the errors contain the last and the first second.
        let last_s = match refusal(certificate, u64::MAX)? {
            Error::CertExpired { not_after, .. } => not_after.as_secs(),
            _ => return None,
        };
        let first_s = match refusal(certificate, 0)? {
            Error::CertNotValidYet { not_before, .. } => not_before.as_secs(),
            _ => 0,
        };
        Some(Validity { first_s, last_s })
    }

    /// Reads the validity of each certificate in a PEM file. Skips certificates that cannot be read.
    pub(crate) fn of_file(pem: &[u8]) -> Vec<Validity> {
        let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        certificates.filter_map(|certificate| Validity::of(&certificate)).collect()
    }

    /// Whole days until the certificate expires, negative after that.
    pub(crate) fn days_left(&self, now_s: u64) -> i64 {
        match self.last_s.checked_sub(now_s) {
            Some(left_s) => (left_s / DAY_S).cast_signed(),
            None => -1 - ((now_s - self.last_s - 1) / DAY_S).cast_signed(),
        }
    }

    /// Whole days until the certificate becomes valid; 0 after that.
    pub(crate) fn days_until(&self, now_s: u64) -> u64 {
        self.first_s.saturating_sub(now_s).div_ceil(DAY_S)
    }
}

/// Why webpki rejects the certificate at that time; `None` if it accepts the certificate.
fn refusal(certificate: &CertificateDer<'_>, second: u64) -> Option<Error> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let second = UnixTime::since_unix_epoch(Duration::from_secs(second));
    let verified = certificate.verify_for_usage(&[], &[], &[], second, KeyUsage::server_auth(), None, None);
    verified.err()
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    /// 2020-01-01 in seconds since 1970.
    const FIRST_S: u64 = 1_577_836_800;

    fn certificate(is_authority: bool) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 1, 11));
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn reads_validity_of_server_and_ca_certificates() {
        for is_authority in [false, true] {
            let validity = Validity::of(&certificate(is_authority)).unwrap();
            assert_eq!(validity, Validity { first_s: FIRST_S, last_s: FIRST_S + 10 * DAY_S });
        }
        assert_eq!(Validity::of(&CertificateDer::from(b"none".to_vec())), None);
    }

    #[test]
    fn counts_days_before_and_after_the_validity() {
        let validity = Validity { first_s: FIRST_S, last_s: FIRST_S + 10 * DAY_S };
        let check = |now_s: u64, left: i64, until: u64| {
            assert_eq!((validity.days_left(now_s), validity.days_until(now_s)), (left, until), "{now_s}");
        };
        check(FIRST_S, 10, 0);
        check(FIRST_S - 1, 10, 1);
        check(FIRST_S - DAY_S - 1, 11, 2);
        check(FIRST_S + 9 * DAY_S + 1, 0, 0);
        check(FIRST_S + 10 * DAY_S, 0, 0);
        check(FIRST_S + 10 * DAY_S + 1, -1, 0);
        check(FIRST_S + 11 * DAY_S + 1, -2, 0);
    }
}
