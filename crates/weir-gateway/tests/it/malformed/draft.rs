//! Drafts of malformed connections. The same seed gives the same bytes.

/// A small generator (splitmix64), so that a failure can be reproduced.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}

/// Generates the bytes of one connection.
pub(crate) struct Draft {
    pub(crate) random: Random,
    /// Number of the case, used in its identifiers.
    pub(crate) number: usize,
    /// Number of the case within its class.
    pub(crate) variation: usize,
}

impl Draft {
    /// Selects one of `forms` for this case. The cases of a class use the forms in round robin.
    pub(crate) fn form<'a>(&self, forms: &[&'a str]) -> &'a str {
        forms[self.variation % forms.len()]
    }

    /// The identifying field of the first request.
    pub(crate) fn id_field(&self) -> String {
        format!("X-Id: first-{}", self.number)
    }

    /// A request that no parser may see, because it is hidden behind malformed bytes.
    pub(crate) fn smuggled(&self) -> String {
        format!("GET /smuggled HTTP/1.1\r\nHost: example.com\r\nX-Id: smuggled-{}\r\n\r\n", self.number)
    }

    /// A request with this request line. These header lines, Host, the identifier and some harmless headers follow in
    /// random order, then `rest`.
    pub(crate) fn request(&mut self, line: &str, fields: &[&str], rest: &str) -> Vec<u8> {
        self.request_without_host(line, &[fields, &["Host: example.com"]].concat(), rest)
    }

    /// Same as [`Draft::request`], without Host.
    pub(crate) fn request_without_host(&mut self, line: &str, fields: &[&str], rest: &str) -> Vec<u8> {
        let mut lines: Vec<String> = fields.iter().map(|field| field.to_string()).collect();
        lines.push(self.id_field());
        let harmless =
            ["Accept: */*", "User-Agent: test", "X-Empty:", "Cookie: a=b; c=d", "accept-language: en"];
        lines.extend(harmless[..self.random.below(harmless.len() + 1)].iter().map(|line| line.to_string()));
        for at in (1..lines.len()).rev() {
            lines.swap(at, self.random.below(at + 1));
        }
        format!("{line}\r\n{}\r\n\r\n{rest}", lines.join("\r\n")).into_bytes()
    }

    /// A POST with these headers, followed by `rest`.
    pub(crate) fn post(&mut self, fields: &[&str], rest: &str) -> Vec<u8> {
        self.request("POST /first HTTP/1.1", fields, rest)
    }

    /// A POST with these headers, followed by the smuggled request. A parser that sees no body would parse the smuggled
    /// request as the next request.
    pub(crate) fn post_then_smuggled(&mut self, fields: &[&str]) -> Vec<u8> {
        let smuggled = self.smuggled();
        self.post(fields, &smuggled)
    }

    /// A POST with this chunked body, followed by the smuggled request.
    pub(crate) fn chunked_then_smuggled(&mut self, body: &str) -> Vec<u8> {
        let rest = format!("{body}{}", self.smuggled());
        self.post(&["Transfer-Encoding: chunked"], &rest)
    }

    /// A GET with this header, followed by the smuggled request.
    pub(crate) fn get_with(&mut self, field: &str) -> Vec<u8> {
        let smuggled = self.smuggled();
        self.request("GET /first HTTP/1.1", &[field], &smuggled)
    }

    /// A request with this request line, followed by the smuggled request.
    pub(crate) fn line(&mut self, line: &str) -> Vec<u8> {
        let smuggled = self.smuggled();
        self.request(line, &[], &smuggled)
    }
}
