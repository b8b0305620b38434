//! Host names: host patterns of routes, and the host in a request's authority.

use std::fmt;

/// The longest host name in DNS, in bytes.
pub(crate) const HOST_BYTES_MAX: usize = 253;

/// The host pattern of a route, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum HostPattern {
    /// `example.com`
    Exact(String),
    /// `*.example.com`, stored as `.example.com`.
    Suffix(String),
}

impl HostPattern {
    /// Parses a host pattern. The error is a message.
    pub(crate) fn parse(text: &str) -> Result<HostPattern, String> {
        let (wildcard, name) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if name.is_empty() {
            return Err(format!("`{text}` is not a host name: the name is empty"));
        }
        if name.contains('*') {
            return Err(format!("`{text}`: a wildcard must be the whole first label, as in `*.example.com`"));
        }
        if name.len() > HOST_BYTES_MAX {
            return Err(format!("`{text}` is longer than {HOST_BYTES_MAX} bytes"));
        }
        let address = !wildcard && name.starts_with('[');
        if address {
            let inner = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
            if inner.and_then(|n| n.parse::<std::net::Ipv6Addr>().ok()).is_none() {
                return Err(format!(
                    "`{text}` is not a valid IPv6 host, such as `[::1]` (brackets, no port)"
                ));
            }
        } else if let Some((_, port)) = name.split_once(':') {
            let _ = port;
            return Err(format!("`{text}` contains a port; a host matches on every port"));
        } else if !name.split('.').all(is_label) {
            return Err(format!("`{text}` is not a host name"));
        }
        let lower = name.to_ascii_lowercase();
        Ok(if wildcard { HostPattern::Suffix(format!(".{lower}")) } else { HostPattern::Exact(lower) })
    }
}

impl HostPattern {
    /// Whether the pattern matches `host`, which is in lower case.
    pub(crate) fn matches(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(name) => name == host,
            // At least one label must precede the suffix.
            HostPattern::Suffix(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Suffix(suffix) => write!(f, "*{suffix}"),
        }
    }
}

/// The suffixes of `name`, each with its leading dot, the longest first: `.b.test` and `.test` of `a.b.test`. At least
/// one label must precede a suffix, so a dot at the start of `name` is skipped.
pub(crate) fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    let dots = name.bytes().enumerate().skip(1).filter(|&(_, byte)| byte == b'.');
    dots.map(|(dot, _)| &name[dot..])
}

fn is_label(label: &str) -> bool {
    let body = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !label.is_empty() && label.len() <= 63 && label.bytes().all(body)
}

/// The host of an authority in lower case, without port and without a trailing dot. It is stored on the stack.
pub(crate) struct LowerHost {
    bytes: [u8; HOST_BYTES_MAX],
    len: usize,
}

impl LowerHost {
    /// Extracts the host from `authority`. `None` if it is longer than [`HOST_BYTES_MAX`], so that no configured name
    /// can match.
    pub(crate) fn of(authority: &str) -> Option<LowerHost> {
        let name = without_port(authority);
        let name = name.strip_suffix('.').unwrap_or(name);
        let mut host = LowerHost { bytes: [0; HOST_BYTES_MAX], len: name.len() };
        let room = host.bytes.get_mut(..name.len())?;
        room.copy_from_slice(name.as_bytes());
        room.make_ascii_lowercase();
        Some(host)
    }

    pub(crate) fn as_str(&self) -> &str {
        // Converting ASCII letters to lower case keeps UTF-8 valid, so the default is never used.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

/// Splits an authority into its host and its port, if any.
pub fn host_and_port(authority: &str) -> (&str, Option<u16>) {
    let name = without_port(authority);
    let port = authority[name.len()..].strip_prefix(':').and_then(|digits| digits.parse().ok());
    (name, port)
}

pub(crate) fn without_port(authority: &str) -> &str {
    if authority.starts_with('[') {
        return authority.find(']').map_or(authority, |end| &authority[..=end]);
    }
    authority.find(':').map_or(authority, |colon| &authority[..colon])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lower(authority: &str) -> String {
        LowerHost::of(authority).map(|h| h.as_str().to_owned()).unwrap_or_default()
    }

    #[test]
    fn authority_loses_case_port_and_trailing_dot() {
        assert_eq!(lower("Example.COM:8080"), "example.com");
        assert_eq!(lower("example.com."), "example.com");
        assert_eq!(lower("[::1]:80"), "[::1]");
        assert_eq!(lower(""), "");
        assert!(LowerHost::of(&"a".repeat(254)).is_none());
    }

    #[test]
    fn rejects_invalid_host_patterns() {
        assert_eq!(HostPattern::parse("*.A.b"), Ok(HostPattern::Suffix(".a.b".into())));
        for wrong in ["", "*.", "a.*.b", "*", "a:80", "a..b", "a b", "[::1", "ä.de"] {
            assert!(HostPattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
