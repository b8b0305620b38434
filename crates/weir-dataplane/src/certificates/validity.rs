//! Parses the validity period of a certificate (RFC 5280, 4.1), which rustls does not provide.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// Tag of the version, which version 1 certificates omit.
const VERSION: u8 = 0xa0;

/// Start and end of the validity, in seconds since 1970. `None` if `der` is not a DER certificate, which rustls rejects
/// earlier.
pub(super) fn validity(der: &[u8]) -> Option<(i64, i64)> {
    let mut certificate = Reader(Reader(der).take(SEQUENCE)?);
    let mut body = Reader(certificate.take(SEQUENCE)?);
    if body.0.first() == Some(&VERSION) {
        body.take(VERSION)?;
    }
    let _serial_number = body.take(INTEGER)?;
    let _signature = body.take(SEQUENCE)?;
    let _issuer = body.take(SEQUENCE)?;
    let mut validity = Reader(body.take(SEQUENCE)?);
    Some((validity.time()?, validity.time()?))
}

/// The remaining bytes of a DER encoding (X.690).
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The contents of the next element, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&found, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        // Below 0x80 the byte is the length. Above, its low bits are the number of length bytes that follow.
        let (length, rest) = match first.checked_sub(0x80) {
            None => (usize::from(first), rest),
            Some(bytes @ 1..=4) => {
                let (length, rest) = rest.split_at_checked(usize::from(bytes))?;
                (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            Some(_) => return None,
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (found == tag).then_some(contents)
    }

    /// Parses UTCTime (`YYMMDDHHMMSSZ`, years 50 to 99 are 1950 to 1999) or GeneralizedTime (`YYYYMMDDHHMMSSZ`).
    fn time(&mut self) -> Option<i64> {
        let tag = *self.0.first()?;
        let text = std::str::from_utf8(self.take(tag)?).ok()?;
        let text = match tag {
            UTC_TIME if text < "50" => format!("20{text}"),
            UTC_TIME => format!("19{text}"),
            GENERALIZED_TIME => text.to_owned(),
            _ => return None,
        };
        let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(from_year: i32, to_year: i32) -> Vec<u8> {
        // With long names, DER needs two-byte lengths.
        let mut params =
            CertificateParams::new(["a".repeat(63), "b".repeat(63)].map(|part| part + ".test")).unwrap();
        (params.not_before, params.not_after) =
            (date_time_ymd(from_year, 2, 3), date_time_ymd(to_year, 12, 31));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn parses_both_time_formats() {
        for (from, to) in [(1975, 1999), (2000, 2049), (2049, 2050), (2050, 4096)] {
            let seconds = |year: i16, month, day| {
                jiff::civil::date(year, month, day).to_zoned(TimeZone::UTC).unwrap().timestamp().as_second()
            };
            let expected = (seconds(from, 2, 3), seconds(to, 12, 31));
            assert_eq!(validity(&certificate(from.into(), to.into())), Some(expected), "{from} {to}");
        }
    }

    #[test]
    fn truncated_or_changed_certificates_cause_no_panic() {
        let whole = certificate(2024, 2051);
        for length in 0..150 {
            assert_eq!(validity(&whole[..length]), None, "{length}");
        }
        for at in 0..200.min(whole.len()) {
            for byte in [0, 0x7f, 0x80, 0x81, 0x84, 0x85, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = validity(&changed);
            }
        }
    }
}
