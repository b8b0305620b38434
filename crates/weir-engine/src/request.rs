//! The request source: requests rendered before the clock starts, chosen by (seed, index).

use weir_http::{ResponseTo, append_content_length, append_field, append_request_line};

use crate::schedule::hash;
use crate::spec::{Body, RequestSpec};

/// Sets the choice of a request apart from the gaps, which are drawn from the same seed.
const CHOICE: u64 = 0x5851_f42d_4c95_7f2d;

/// Rendered requests.
#[derive(Clone, Debug)]
pub(crate) struct RequestSource {
    seed: u64,
    requests: Vec<Rendered>,
}

/// A request as it goes over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Rendered {
    pub(crate) bytes: Vec<u8>,
    pub(crate) response_to: ResponseTo,
}

impl RequestSource {
    /// Renders valid requests; there is at least one.
    pub(crate) fn new(seed: u64, specs: &[RequestSpec]) -> Self {
        Self { seed: seed ^ CHOICE, requests: specs.iter().map(render).collect() }
    }

    pub(crate) fn choose(&self, index: u64) -> u32 {
        let choice = u128::from(hash(self.seed, index)) * self.requests.len() as u128;
        (choice >> 64) as u32
    }

    pub(crate) fn route_of(&self, _: u32) -> u16 {
        0
    }

    pub(crate) fn routes(&self) -> &[String] {
        &[]
    }

    /// The request that arrival `index` sends.
    #[inline]
    pub(crate) fn of(&self, index: u64) -> &Rendered {
        match self.requests.as_slice() {
            [only] => only,
            // The high half of the product spreads a 64-bit number over the list without bias to speak of.
            many => {
                let choice = u128::from(hash(self.seed, index)) * many.len() as u128;
                &many[(choice >> 64) as usize]
            }
        }
    }
}

fn render(spec: &RequestSpec) -> Rendered {
    let mut bytes = Vec::new();
    append_request_line(&mut bytes, &spec.method, &spec.path);
    for (name, value) in &spec.headers {
        append_field(&mut bytes, name, value.as_bytes());
    }
    let Body::Text(body) = &spec.body else { unreachable!("validated") };
    if !body.is_empty() || wants_length(&spec.method) {
        append_content_length(&mut bytes, body.len() as u64);
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body.as_bytes());
    let response_to = if spec.method == "HEAD" { ResponseTo::Head } else { ResponseTo::Other };
    Rendered { bytes, response_to }
}

/// Methods that are expected to have a body say so even when it is empty (RFC 9110, 8.6).
fn wants_length(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(method: &str, path: &str, body: &str) -> RequestSpec {
        RequestSpec {
            method: method.into(),
            path: path.into(),
            headers: vec![("Host".into(), "a".into()), ("X-One".into(), "1".into())],
            body: Body::Text(body.into()),
            ..RequestSpec::default()
        }
    }

    #[test]
    fn requests_are_rendered_whole() {
        let text = |spec| String::from_utf8(render(&spec).bytes).unwrap();
        assert_eq!(text(spec("GET", "/x?y", "")), "GET /x?y HTTP/1.1\r\nHost: a\r\nX-One: 1\r\n\r\n");
        assert_eq!(
            text(spec("POST", "/", "hello")),
            "POST / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nContent-Length: 5\r\n\r\nhello"
        );
        assert!(text(spec("PUT", "/", "")).ends_with("Content-Length: 0\r\n\r\n"));
        assert_eq!(render(&spec("HEAD", "/", "")).response_to, ResponseTo::Head);
    }

    #[test]
    fn arrivals_choose_uniformly_and_always_the_same() {
        let specs: Vec<_> = (0..8).map(|n| spec("GET", &format!("/{n}"), "")).collect();
        let source = RequestSource::new(11, &specs);
        let mut counts = std::collections::BTreeMap::new();
        for index in 0..80_000 {
            assert_eq!(source.of(index).bytes, source.of(index).bytes);
            *counts.entry(source.of(index).bytes.clone()).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 8);
        // Five standard deviations of a binomial count around 10,000.
        assert!(counts.values().all(|&count| count.abs_diff(10_000) < 470), "{:?}", counts.values());
    }
}
