//! Statuses that a check expects.

/// Expected statuses: one code, or a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusPattern {
    Code(u16),
    Class(u16),
}

impl StatusPattern {
    /// A code from 100 to 999, or a class from `1xx` to `5xx`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.as_bytes() {
            [first @ b'1'..=b'5', b'x' | b'X', b'x' | b'X'] => Some(Self::Class(u16::from(first - b'0'))),
            [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => text.parse().ok().map(Self::Code),
            _ => None,
        }
    }

    pub(crate) fn fits(self, status: u16) -> bool {
        match self {
            Self::Code(code) => code == status,
            Self::Class(class) => class == status_class(status),
        }
    }
}

/// The class of a status, 1 to 5. A code beyond 599 is treated as one of 5xx (RFC 9110, section 15).
#[inline]
pub(crate) fn status_class(status: u16) -> u16 {
    (status / 100).clamp(1, 5)
}
