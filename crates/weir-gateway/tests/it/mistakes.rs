//! A valid configuration, and mistakes that make it invalid.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, KeyPair};

/// A valid configuration. It expects `a.pem`, `a.key` and `b.key` in the same folder.
pub(crate) const GOOD: &str = "\
listeners:
  - { address: 127.0.0.1:8080, name: plain }
  - address: 127.0.0.1:8443
    tls:
      certificate: a.pem
      key: a.key
      versions: [1.2, 1.3]
      ciphers: [TLS_AES_128_GCM_SHA256, ECDHE-ECDSA-AES128-GCM-SHA256]
routes:
  - hosts: [a.test, '*.a.test']
    path: /api
    methods: [GET, POST]
    headers: { x-version: '2' }
    backend: api
  - regex: '/users/[0-9]+'
    backends: [{ backend: api, weight: 9 }, { backend: web, weight: 1 }]
    timeouts: { request: 10s, backend: 2s }
  - path: /old
    redirect: { scheme: https, status: 301 }
  - path: /
    backend: web
    request_headers: { set: { X-Tier: gold } }
    mirror: { backend: api, share: 10% }
    compress: { types: [text/*], gzip: 5 }
backends:
  api: { endpoints: [127.0.0.1:9000] }
  web: { endpoints: [127.0.0.1:9100, '[::1]:9100'] }
paths: { escaped_slashes: reject }
limits: { head: 32KiB, fields: 100 }
timeouts: { idle: 75s }
workers: 2
log: { level: warn }
overload: { memory: 90%, lag: 50ms }
";

/// Validity of the certificate, days.
pub(crate) const DAYS: i64 = 30;

/// One mistake in [`GOOD`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mistake {
    /// The replaced text, and its replacement.
    pub(crate) change: (&'static str, &'static str),
    pub(crate) line: u64,
    /// Part of the message.
    pub(crate) what: &'static str,
    /// Part of the remedy.
    pub(crate) remedy: &'static str,
    /// Kind of the mistake. It determines which other checks find the mistake.
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The file cannot be parsed: invalid YAML or a duplicate field.
    Syntax,
    /// A wrong type or form, which the JSON Schema rejects too.
    Form,
    /// A contradiction with another part of the configuration, or with one of its files.
    Sense,
    /// Takes effect, but is most likely not intended.
    Warning,
}

const fn mistake(
    kind: Kind,
    change: (&'static str, &'static str),
    line: u64,
    what: &'static str,
    remedy: &'static str,
) -> Mistake {
    Mistake { change, line, what, remedy, kind }
}

use Kind::{Form, Sense, Syntax, Warning};

/// Mistakes of every kind.
pub(crate) const MISTAKES: &[Mistake] = &[
    mistake(
        Form,
        ("timeouts: { request", "timeout: { request"),
        17,
        "unknown field `timeout`",
        "did you mean `timeouts`?",
    ),
    mistake(
        Form,
        ("workers: 2", "workers: 2\nadmin: 127.0.0.1:9900"),
        32,
        "unknown field `admin`",
        "use the command-line option `--admin ADDR`",
    ),
    mistake(Form, ("workers: 2", "worker: 2"), 31, "unknown field `worker`", "did you mean `workers`?"),
    mistake(
        Form,
        ("workers: 2", "workers: many"),
        31,
        "`many` is not a whole number",
        "write a whole number",
    ),
    mistake(
        Form,
        ("workers: 2", "workers: 0"),
        31,
        "workers: 0 is out of range; allowed: 1 to 1024",
        "remove the field",
    ),
    mistake(Form, ("address: 127.0.0.1:8080, ", ""), 2, "missing field `address`", "add `address`"),
    mistake(
        Sense,
        ("backend: 2s }", "body: 0s }"),
        17,
        "routes[1].timeouts.body: 0s is out of range; allowed: 1ns to 30 days",
        "remove the field to use the value of the gateway",
    ),
    mistake(
        Form,
        ("name: plain }", "half_close: often }"),
        2,
        "`often` is not `true` or `false`",
        "write `true` or `false`",
    ),
    mistake(
        Form,
        ("127.0.0.1:8080", "localhost:8080"),
        2,
        "`localhost:8080` is not an IP address with a port",
        "write it like 127.0.0.1:8080",
    ),
    mistake(
        Form,
        ("127.0.0.1:9000", "127.0.0.1:90000"),
        26,
        "is not an IP address or a host name with a port",
        "write it like 127.0.0.1:8080",
    ),
    mistake(
        Sense,
        ("127.0.0.1:9000", "127.0.0.1:0"),
        26,
        "backends.api.endpoints[0]: 127.0.0.1:0 has port 0",
        "write the port that the service listens on",
    ),
    mistake(
        Sense,
        ("127.0.0.1:8443", "127.0.0.1:8080"),
        3,
        "127.0.0.1:8080 is already the address of listeners[0]",
        "give each listener its own address",
    ),
    mistake(
        Sense,
        ("    backend: api\n", "    backend: apy\n"),
        14,
        "routes[0].backend: unknown backend `apy`",
        "did you mean `api`?",
    ),
    mistake(Syntax, ("  web: {", "  api: {"), 27, "duplicate field `api`", "remove one of them"),
    mistake(
        Syntax,
        ("    path: /api\n", "    path: /api\n    path: /api\n"),
        12,
        "duplicate field `path`",
        "remove one of them",
    ),
    mistake(
        Form,
        ("'*.a.test'", "'a.*.test'"),
        10,
        "routes[0].hosts[1]: `a.*.test`: a wildcard must be the whole first label",
        "`*.example.com`",
    ),
    mistake(Form, ("a.test, ", "a.test:80, "), 10, "`a.test:80` contains a port", "write `example.com`"),
    mistake(
        Form,
        ("path: /api", "path: api"),
        11,
        "routes[0].path: `api` does not start with `/`",
        "write `/api`",
    ),
    mistake(
        Form,
        ("path: /api", "path: /api?x=1"),
        11,
        "contains a query; this field matches only the path",
        "write `/api`",
    ),
    mistake(Sense, ("path: /api", "path: /api%00"), 11, "path contains an encoded NUL (%00)", "remove `%00`"),
    mistake(Sense, ("path: /api", "path: /api/%2e%2e/x"), 11, "is not in normal form", "write `/x`"),
    mistake(
        Sense,
        ("[0-9]+'", "([0-9]+'"),
        15,
        "routes[1].regex: `/users/([0-9]+`: unclosed group, at character 8",
        "fix the regular expression",
    ),
    mistake(
        Sense,
        ("[GET, POST]", "[get, POST]"),
        12,
        "routes[0].methods[0]: unknown method `get`",
        "write `GET`",
    ),
    mistake(
        Form,
        ("[GET, POST]", "[GET, 'P OST']"),
        12,
        "invalid method `P OST`",
        "use a method such as `GET`",
    ),
    mistake(
        Sense,
        ("x-version: '2'", "'x version': '2'"),
        13,
        "invalid header name `x version`",
        "letters, digits and hyphens",
    ),
    mistake(
        Form,
        ("status: 301 }", "status: 301 }\n    backend: web"),
        19,
        "`backend` and `redirect` cannot be combined",
        "remove one of them",
    ),
    mistake(
        Sense,
        ("status: 301 }", "status: 301 }\n    rewrite: /x"),
        20,
        "routes[2].rewrite: no effect with `redirect`",
        "remove `rewrite`",
    ),
    mistake(
        Form,
        ("status: 301", "status: 200"),
        19,
        "routes[2].redirect.status: 200 is not a redirect status",
        "use 301, 302",
    ),
    mistake(
        Form,
        ("    redirect: { scheme: https, status: 301 }\n", ""),
        18,
        "routes[2]: the route has no action",
        "add `backend`",
    ),
    mistake(
        Form,
        ("regex: ", "path: /users\n    regex: "),
        15,
        "`path` and `regex` cannot be combined",
        "write two routes",
    ),
    mistake(
        Sense,
        ("path: /old", "path: /"),
        20,
        "routes[2] already matches path `/` for every host",
        "remove one of the routes, or make them differ",
    ),
    mistake(
        Warning,
        ("X-Tier: gold", "X-Real-IP: $remote_addr"),
        22,
        "the gateway sends `$remote_addr` literally",
        "use `forwarding` to send the client address",
    ),
    mistake(
        Sense,
        ("workers: 2", "forwarding: { trusted_header: forwarded }"),
        31,
        "forwarding.trusted_header: `trusted_hops` is 0, so no proxy is trusted",
        "set `trusted_hops` to the number of proxies in front",
    ),
    mistake(
        Form,
        ("workers: 2", "forwarding: { trusted_hops: 1, trusted_header: via }"),
        31,
        "via",
        "forwarded",
    ),
    mistake(
        Sense,
        ("workers: 2", "trailers: { request: [Cookie] }"),
        31,
        "trailers.request[0]: `Cookie` cannot be a trailer: recipients need it before the body",
        "send a header instead",
    ),
    mistake(
        Sense,
        ("workers: 2", "trailers: { request: [X_Sum] }"),
        31,
        "the gateway drops request trailers with a name like `X_Sum`",
        "`underscores_in_headers: true`",
    ),
    mistake(
        Form,
        ("workers: 2", "trailers: { response: [a b] }"),
        31,
        "trailers.response[0]: invalid trailer name `a b`",
        "as in `X-Checksum`",
    ),
    mistake(Form, ("workers: 2", "underscores_in_headers: sometimes"), 31, "sometimes", "`true` or `false`"),
    mistake(
        Warning,
        ("x-version: '2'", "x_version: '2'"),
        13,
        "the gateway drops the request header `x_version`, so the header is always missing",
        "`underscores_in_headers: true`",
    ),
    mistake(
        Warning,
        ("hosts: [a.test, ", "hosts: [_, a.test, "),
        10,
        "`_` is not a wildcard",
        "remove `hosts`",
    ),
    mistake(
        Warning,
        ("path: /old", "path: /old*"),
        18,
        "is not a wildcard",
        "`path: /old` to match everything",
    ),
    mistake(
        Warning,
        ("weight: 9 }, { backend: web, weight: 1 }", "weight: 0 }, { backend: web, weight: 0 }"),
        16,
        "warning: routes[1].backends: all weights are 0",
        "at least one `weight` to 1 or more",
    ),
    mistake(
        Warning,
        ("endpoints: [127.0.0.1:9000]", "endpoints: [{ address: 127.0.0.1:9000, weight: 0 }]"),
        26,
        "warning: backends.api.endpoints: all weights are 0: requests for this backend get 503",
        "at least one `weight` to 1 or more",
    ),
    mistake(
        Warning,
        ("/users/[0-9]+", "/old/[0-9]+"),
        15,
        "warning: routes[1].regex: this route never matches: routes[2] matches all paths below `/old`",
        "or remove",
    ),
    mistake(Form, ("share: 10%", "share: ten"), 23, "`ten` is not a share", "0.1%, 50%"),
    mistake(
        Form,
        ("idle: 75s", "idle: 75"),
        30,
        "`75` has no unit",
        "write a time with its unit, like 100us",
    ),
    mistake(
        Sense,
        ("idle: 75s", "idle: 0s"),
        30,
        "timeouts.idle: 0s is out of range; allowed: 1ns to 30 days",
        "write a time in this range; this timeout cannot be turned off",
    ),
    mistake(Form, ("32KiB", "32K"), 29, "`32K` is not a size", "64KiB"),
    mistake(
        Form,
        ("fields: 100", "fields: 1000"),
        29,
        "limits.fields: 1000 is out of range; allowed: 8 to 128",
        "the default, 100",
    ),
    mistake(Form, ("      key: a.key\n", ""), 7, "missing field `key`", "add `key`"),
    mistake(
        Sense,
        ("a.pem", "none.pem"),
        5,
        "listeners[1].tls.certificate: cannot read `none.pem`: No such file",
        "check that the file exists",
    ),
    mistake(
        Sense,
        ("a.pem", "b.key"),
        5,
        "listeners[1].tls.certificate: `b.key` contains no PEM certificate",
        "a PEM file that starts with -----BEGIN CERTIFICATE-----",
    ),
    mistake(
        Sense,
        ("a.key", "b.key"),
        6,
        "listeners[1].tls.key: `b.key` is not the private key of `a.pem`",
        "the private key of this certificate",
    ),
    mistake(
        Sense,
        ("[TLS_AES_128_GCM_SHA256", "[RC4-SHA"),
        8,
        "listeners[1].tls.ciphers[0]: unsupported cipher suite `RC4-SHA`",
        "supported: TLS_AES_128_GCM_SHA256",
    ),
    mistake(Form, ("[1.2, 1.3]", "[1.1, 1.3]"), 7, "unsupported TLS version `1.1`", "write 1.2 or 1.3"),
    mistake(
        Form,
        ("escaped_slashes: reject", "escaped_slashes: refuse"),
        28,
        "unknown value `refuse`",
        "`reject`",
    ),
    mistake(
        Form,
        ("escaped_slashes: reject", "path_parameters: drop"),
        28,
        "unknown value `drop`",
        "`strip`",
    ),
    mistake(
        Sense,
        ("path: /old", "path: /old;v=1"),
        18,
        "routes[2].path: `/old;v=1` matches no request: the gateway removes path parameters (`;` and what follows in the segment) before it matches routes",
        "write `/old`, or set `paths.path_parameters: keep`",
    ),
    mistake(
        Sense,
        ("[127.0.0.1:9000] }", "[127.0.0.1:9000], ejection: { share: { errors: 0% } } }"),
        26,
        "backends.api.ejection.share.errors: 0% would eject every endpoint",
        "write a share above 0",
    ),
    mistake(
        Form,
        ("127.0.0.1:9000", "'unix:run/api.sock'"),
        26,
        "is not an absolute path",
        "start the path with `/`",
    ),
    mistake(
        Sense,
        ("[127.0.0.1:9000] }", "[127.0.0.1:9000], timeouts: { pending: 1s } }"),
        26,
        "backends.api.timeouts.pending: no effect without `limits.pending`: no request waits in a queue",
        "set `limits.pending`",
    ),
    mistake(Form, ("level: warn", "level: loud"), 32, "unknown value `loud`", "`error`"),
    mistake(Form, ("90%", "90"), 33, "`90` is not a memory limit", "a share like 90%"),
    mistake(Sense, ("90%", "0%"), 33, "overload.memory: 0 would reject every request with 503", "no limit"),
    mistake(
        Sense,
        ("lag: 50ms", "lag: 0s"),
        33,
        "overload.lag: 0s is out of range; allowed: 1ns to 30 days",
        "remove the field to set no limit",
    ),
    mistake(
        Form,
        ("gzip: 5", "gzip: 10"),
        24,
        "routes[3].compress.gzip: level 10 is out of range; allowed: 1 to 9",
        "use 5, the default",
    ),
    mistake(
        Sense,
        ("[text/*]", "[text]"),
        24,
        "routes[3].compress.types[0]: `text` is not a media type",
        "`application/json` or `text/*`",
    ),
    mistake(
        Sense,
        ("- path: /old\n", "- path: /old\n    metrics_group: other\n"),
        19,
        "routes[2].metrics_group: `other` is reserved for the groups beyond the first 1000",
        "use another name",
    ),
    mistake(Syntax, ("    tls:\n", "\ttls:\n"), 4, "a tab in the indentation", "indent with spaces"),
    mistake(Syntax, ("    methods:", "   methods:"), 12, "", "check the indentation"),
];

impl Mistake {
    /// [`GOOD`] with this mistake.
    pub(crate) fn text(&self) -> String {
        let (from, to) = self.change;
        assert!(GOOD.contains(from), "{from}");
        GOOD.replacen(from, to, 1)
    }
}

/// Writes the files that [`GOOD`] names.
pub(crate) fn write_files(folder: &Path) {
    write_pair(folder, "a.test", DAYS * 86_400 + 3600);
    let other = KeyPair::generate().expect("a key");
    std::fs::write(folder.join("b.key"), other.serialize_pem()).expect("a file");
}

/// Writes `a.pem` and `a.key` for this host. The certificate expires in `seconds_left`, or has expired if that is
/// negative.
pub(crate) fn write_pair(folder: &Path, host: &str, seconds_left: i64) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
    let now = SystemTime::now();
    let distance = Duration::from_secs(seconds_left.unsigned_abs());
    params.not_before = (now - Duration::from_secs(365 * 86_400)).into();
    params.not_after = (if seconds_left < 0 { now - distance } else { now + distance }).into();
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    for (name, text) in [("a.pem", certificate), ("a.key", key.serialize_pem())] {
        std::fs::write(folder.join(name), text).expect("a file");
    }
}
