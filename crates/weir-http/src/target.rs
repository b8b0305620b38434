//! The four forms of the request target, and the authority in a target or in Host (RFC 9112, 3.2).

use std::net::Ipv6Addr;

use crate::HeadError;

/// A parsed request target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// The authority; only the absolute form and the authority form have one.
    pub(crate) authority: Option<&'a str>,
    /// The path and query. Starts with `/`, or is `*` (OPTIONS), or is empty (CONNECT).
    pub(crate) path_and_query: &'a str,
}

impl<'a> Target<'a> {
    #[inline]
    pub(crate) fn parse(method: &str, target: &'a str) -> Result<Self, HeadError> {
        if !target.is_ascii() {
            return Err(HeadError::TargetByte);
        }
        if memchr::memchr(b'#', target.as_bytes()).is_some() {
            return Err(HeadError::TargetFragment);
        }
        let is_connect = method == "CONNECT";
        if target.starts_with('/') && !is_connect {
            return Ok(Target { authority: None, path_and_query: target });
        }
        if is_connect { Target::authority_form(target) } else { Target::other_form(method, target) }
    }

    fn authority_form(target: &'a str) -> Result<Self, HeadError> {
        if target.contains('/') || target == "*" {
            return Err(HeadError::TargetForm);
        }
        // An IPv6 address contains colons, but none after its closing bracket.
        let has_port =
            target.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && !port.contains(']'));
        match parse_authority(target.as_bytes()) {
            Some(authority) if has_port => Ok(Target { authority: Some(authority), path_and_query: "" }),
            _ => Err(HeadError::Target),
        }
    }

    fn other_form(method: &str, target: &'a str) -> Result<Self, HeadError> {
        let is_options = method == "OPTIONS";
        if target == "*" {
            return match is_options {
                true => Ok(Target { authority: None, path_and_query: target }),
                false => Err(HeadError::TargetForm),
            };
        }
        let Some((scheme, rest)) = target.split_once("://") else {
            let is_authority = parse_authority(target.as_bytes()).is_some();
            return Err(if is_authority { HeadError::TargetForm } else { HeadError::Target });
        };
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(HeadError::Target);
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let path_and_query = match path {
            "" if is_options => "*",
            "" => "/",
            // A query without a path is valid, but cannot be forwarded unchanged.
            _ if path.starts_with('?') => return Err(HeadError::Target),
            _ => path,
        };
        let authority = parse_authority(authority.as_bytes()).ok_or(HeadError::Target)?;
        Ok(Target { authority: Some(authority), path_and_query })
    }
}

/// Parses a host with an optional port. Returns `None` if the bytes are empty or malformed.
#[inline]
pub(crate) fn parse_authority(bytes: &[u8]) -> Option<&str> {
    let authority = std::str::from_utf8(bytes).ok()?;
    let (host_is_valid, rest) = match authority.strip_prefix('[') {
        Some(inner) => {
            let (address, rest) = inner.split_once(']')?;
            (address.parse::<Ipv6Addr>().is_ok(), rest)
        }
        None => {
            let (host, rest) = authority.split_at(memchr::memchr(b':', bytes).unwrap_or(bytes.len()));
            (is_registered_name(host.as_bytes()), rest)
        }
    };
    let port_is_valid = match rest.strip_prefix(':') {
        None => rest.is_empty(),
        Some("") => true,
        Some(port) => port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok(),
    };
    (host_is_valid && port_is_valid).then_some(authority)
}

/// Whether the host is a name or an IPv4 address (RFC 3986, 3.2.2) without percent-encoding and without empty
/// labels. A dot at the end is allowed.
///
/// No route would match `%61.b` or `a.b..`, but an upstream may read them as `a.b`. Real clients do not send such
/// names.
fn is_registered_name(host: &[u8]) -> bool {
    let mut is_at_label = true;
    for byte in host {
        match byte {
            b'.' if is_at_label => return false,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {}
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => {}
            _ => return false,
        }
        is_at_label = *byte == b'.';
    }
    !host.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_validated() {
        for good in [
            "a",
            "a.b",
            "A-1.b:80",
            "a:",
            "127.0.0.1:65535",
            "[::1]",
            "[2001:db8::1]:8080",
            "a.b.",
            "a.:80",
            "a_b",
        ] {
            assert_eq!(parse_authority(good.as_bytes()), Some(good));
        }
        for bad in [
            "", ":80", "a:b", "a:65536", "a:+1", "a:80:80", "a b", "a/b", "u@a", "a%2", "[::1", "[::1]x",
            "[]", "%61", "a%20b", "a..", "a..b", ".a", ".", "..", "a..:80",
        ] {
            assert_eq!(parse_authority(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse_authority(b"\xff"), None);
    }

    #[test]
    fn method_decides_allowed_target_forms() {
        let good = [
            ("GET", "/a?b", None, "/a?b"),
            ("GET", "http://a/b?c", Some("a"), "/b?c"),
            ("GET", "HTTPS://a:443", Some("a:443"), "/"),
            ("OPTIONS", "*", None, "*"),
            ("OPTIONS", "http://a", Some("a"), "*"),
            ("CONNECT", "a:443", Some("a:443"), ""),
            ("CONNECT", "[::1]:443", Some("[::1]:443"), ""),
        ];
        for (method, target, authority, path_and_query) in good {
            assert_eq!(Target::parse(method, target), Ok(Target { authority, path_and_query }));
        }
        let bad = [
            ("GET", "*", HeadError::TargetForm),
            ("GET", "a:80", HeadError::TargetForm),
            ("CONNECT", "/", HeadError::TargetForm),
            ("CONNECT", "http://a/", HeadError::TargetForm),
            ("CONNECT", "a", HeadError::Target),
            ("CONNECT", "a:", HeadError::Target),
            ("CONNECT", "[::1]", HeadError::Target),
            ("GET", "ftp://a/", HeadError::Target),
            ("GET", "http:///b", HeadError::Target),
            ("GET", "http://u@a/", HeadError::Target),
            ("GET", "http://a?x", HeadError::Target),
            ("GET", "?x", HeadError::Target),
            ("GET", "/#x", HeadError::TargetFragment),
            ("GET", "/\u{e9}", HeadError::TargetByte),
        ];
        for (method, target, error) in bad {
            assert_eq!(Target::parse(method, target), Err(error), "{method} {target}");
        }
    }
}
