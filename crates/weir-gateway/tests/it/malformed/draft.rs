//! Drafting one malformed connection: the same seed drafts the same bytes.

/// A small generator of our own (splitmix64), so that a failure repeats.
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

/// One connection in the making.
pub(crate) struct Draft {
    pub(crate) random: Random,
    /// The case's number, which its identifiers carry.
    pub(crate) number: usize,
    /// Counts within the class.
    pub(crate) variation: usize,
}

impl Draft {
    /// One of the forms that a class has; the variations go through them in order.
    pub(crate) fn form<'a>(&self, forms: &[&'a str]) -> &'a str {
        forms[self.variation % forms.len()]
    }

    /// The identifying field of the first request.
    pub(crate) fn id_field(&self) -> String {
        format!("X-Id: first-{}", self.number)
    }

    /// A request that must never be understood as one: it hides behind what is malformed.
    pub(crate) fn smuggled(&self) -> String {
        format!("GET /smuggled HTTP/1.1\r\nHost: example.com\r\nX-Id: smuggled-{}\r\n\r\n", self.number)
    }

    /// A request with this line and these field lines, among which Host, the identifier and harmless fields
    /// are mixed; then these bytes.
    pub(crate) fn request(&mut self, line: &str, fields: &[&str], rest: &str) -> Vec<u8> {
        self.request_without_host(line, &[fields, &["Host: example.com"]].concat(), rest)
    }

    /// As [`Draft::request`], without the Host.
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

    /// A POST with these fields and then these bytes.
    pub(crate) fn post(&mut self, fields: &[&str], rest: &str) -> Vec<u8> {
        self.request("POST /first HTTP/1.1", fields, rest)
    }

    /// A POST with these fields, and behind it the smuggled request as it would be left over by a reader that
    /// sees no body.
    pub(crate) fn post_then_smuggled(&mut self, fields: &[&str]) -> Vec<u8> {
        let smuggled = self.smuggled();
        self.post(fields, &smuggled)
    }

    /// A POST with a chunked body of these bytes, and then the smuggled request.
    pub(crate) fn chunked_then_smuggled(&mut self, body: &str) -> Vec<u8> {
        let rest = format!("{body}{}", self.smuggled());
        self.post(&["Transfer-Encoding: chunked"], &rest)
    }

    /// A GET with this field line, and then the smuggled request.
    pub(crate) fn get_with(&mut self, field: &str) -> Vec<u8> {
        let smuggled = self.smuggled();
        self.request("GET /first HTTP/1.1", &[field], &smuggled)
    }

    /// A request with this line, and then the smuggled request.
    pub(crate) fn line(&mut self, line: &str) -> Vec<u8> {
        let smuggled = self.smuggled();
        self.request(line, &[], &smuggled)
    }
}
