//! Parses `--resolve HOST:PORT:ADDR`.

use weir_engine::ResolveSpec;

use crate::failure::Failure;

/// Parses the flag like curl does. The address may be in brackets.
pub(super) fn read(text: &str) -> Result<ResolveSpec, Failure> {
    let parts = || {
        // If the host is an IPv6 address, it must be in brackets, because it contains colons.
        let (host, rest) = match text.strip_prefix('[') {
            Some(inner) => inner.split_once("]:")?,
            None => text.split_once(':')?,
        };
        let (port, address) = rest.split_once(':')?;
        let address = address.trim_matches(['[', ']']).parse().ok()?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (!host.is_empty()).then(|| ResolveSpec { host: host.to_owned(), port, address })
    };
    parts().ok_or_else(|| {
        let message = format!("--resolve {text}: not of the form HOST:PORT:ADDR");
        Failure::wrong_use(message, "write it as --resolve example.com:443:127.0.0.1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ports_and_addresses_are_parsed() {
        for (text, host, port, address) in [
            ("a.example:443:127.0.0.1", "a.example", 443, "127.0.0.1"),
            ("a.example:443:::1", "a.example", 443, "::1"),
            ("a.example:443:[::1]", "a.example", 443, "::1"),
            ("[::2]:80:::1", "::2", 80, "::1"),
        ] {
            let expected = ResolveSpec { host: host.into(), port, address: address.parse().unwrap() };
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
        for text in ["", "a", "a:443", "a:443:b", "a:0:127.0.0.1", ":443:127.0.0.1", "a:x:127.0.0.1"] {
            let failure = read(text).unwrap_err();
            assert!(
                failure.problem.message.contains("--resolve") && failure.problem.remedy.contains("443"),
                "{text}"
            );
        }
    }
}
