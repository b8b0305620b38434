//! Derives the framing, the host and the connection options from all header fields in one pass.

use crate::fields::{CONNECTION_NAMES_MAX, CONNECTION_OPTIONS_MAX, Field, is_token_byte, list_elements};
use crate::{HeadError, Version, work};

/// The combined meaning of all header fields of a message.
#[derive(Debug, Default)]
pub(crate) struct Facts<'a> {
    /// The value of Host (requests only). A second Host is an error.
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) content_length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    /// Number of header fields that Connection names, other than `Upgrade`, `Keep-Alive` and `TE`.
    connection_names: usize,
    /// Number of options in Connection, including empty ones.
    connection_options: usize,
    pub(crate) expect_continue: bool,
    upgrade_option: bool,
    upgrade_field: bool,
}

impl<'a> Facts<'a> {
    /// Collects framing, host and connection options from the header fields.
    #[inline]
    pub(crate) fn of(fields: &[Field<'a>], version: Version, is_request: bool) -> Result<Self, HeadError> {
        let mut facts = Facts::default();
        for field in fields {
            work::count(1);
            let (name, value) = (field.name, field.value);
            match name.len() {
                4 if is_request && name.eq_ignore_ascii_case("host") => facts.host(value)?,
                6 if is_request && name.eq_ignore_ascii_case("expect") => facts.expect(value)?,
                7 if name.eq_ignore_ascii_case("upgrade") => facts.upgrade_field = !value.is_empty(),
                10 if name.eq_ignore_ascii_case("connection") => facts.connection(value)?,
                14 if name.eq_ignore_ascii_case("content-length") => facts.content_length(value)?,
                17 if name.eq_ignore_ascii_case("transfer-encoding") => facts.transfer_encoding(value)?,
                _ => {}
            }
        }
        if facts.chunked && facts.content_length.is_some() {
            return Err(HeadError::LengthAndCoding);
        }
        if facts.chunked && version == Version::Http10 {
            return Err(HeadError::CodingInHttp10);
        }
        Ok(facts)
    }

    /// Whether the message asks for an upgrade. HTTP/1.0 has no upgrade.
    pub(crate) fn asks_for_upgrade(&self, version: Version) -> bool {
        self.upgrade_option && self.upgrade_field && version == Version::Http11
    }

    /// Whether the version and the Connection header allow the connection to stay open.
    pub(crate) fn persists(&self, version: Version) -> bool {
        !self.close && (self.keep_alive || version == Version::Http11)
    }

    /// Whether Connection names header fields that are not hop-by-hop.
    pub(crate) fn connection_names_fields(&self) -> bool {
        self.connection_names > 0
    }

    fn host(&mut self, value: &'a [u8]) -> Result<(), HeadError> {
        match self.host.replace(value) {
            Some(_) => Err(HeadError::HostRepeated),
            None => Ok(()),
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), HeadError> {
        match self.content_length.replace(parse_length(value)?) {
            Some(_) => Err(HeadError::LengthRepeated),
            None => Ok(()),
        }
    }

    fn expect(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(HeadError::Expectation);
        }
        self.expect_continue = true;
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) -> Result<(), HeadError> {
        for option in list_elements(value) {
            self.connection_options += 1;
            if self.connection_options > CONNECTION_OPTIONS_MAX {
                return Err(HeadError::ConnectionTooLong);
            }
            match option.len() {
                0 => {}
                5 if option.eq_ignore_ascii_case(b"close") => self.close = true,
                7 if option.eq_ignore_ascii_case(b"upgrade") => self.upgrade_option = true,
                10 if option.eq_ignore_ascii_case(b"keep-alive") => self.keep_alive = true,
                2 if option.eq_ignore_ascii_case(b"te") => {}
                _ if !option.iter().all(|&b| is_token_byte(b)) => return Err(HeadError::ConnectionInvalid),
                4 if option.eq_ignore_ascii_case(b"host") => return Err(HeadError::ConnectionNamesFraming),
                14 if option.eq_ignore_ascii_case(b"content-length") => {
                    return Err(HeadError::ConnectionNamesFraming);
                }
                _ if self.connection_names == CONNECTION_NAMES_MAX => {
                    return Err(HeadError::ConnectionTooLong);
                }
                _ => self.connection_names += 1,
            }
        }
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if self.chunked {
            return Err(HeadError::CodingRepeated);
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(coding_fault(value));
        }
        self.chunked = true;
        Ok(())
    }
}

/// Returns the error for a Transfer-Encoding that is not exactly `chunked`.
#[cold]
fn coding_fault(value: &[u8]) -> HeadError {
    if !list_elements(value).all(|coding| !coding.is_empty() && coding.iter().all(|&b| is_token_byte(b))) {
        return HeadError::CodingInvalid;
    }
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    match list_elements(value).filter(|coding| is_chunked(coding)).count() {
        0 => HeadError::CodingUnknown,
        1 if list_elements(value).last().is_some_and(is_chunked) => HeadError::CodingUnknown,
        1 => HeadError::ChunkedNotLast,
        _ => HeadError::CodingRepeated,
    }
}

fn parse_length(value: &[u8]) -> Result<u64, HeadError> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        let is_list = value.contains(&b',')
            && list_elements(value).all(|length| !length.is_empty() && length.iter().all(u8::is_ascii_digit));
        return Err(if is_list { HeadError::LengthRepeated } else { HeadError::LengthInvalid });
    }
    let mut length: u64 = 0;
    for digit in value {
        length = length
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(u64::from(digit - b'0')))
            .filter(|&length| length <= i64::MAX as u64)
            .ok_or(HeadError::LengthOverflow)?;
    }
    Ok(length)
}
