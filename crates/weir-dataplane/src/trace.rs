//! Trace headers: W3C Trace Context and Zipkin's B3, passed on or generated.
//!
//! The gateway records no spans, so it does not appear in a trace: client and upstream see each other's spans.

use weir_config::{B3, Trace};
use weir_http::RequestHead;

use crate::entropy::Entropy;
use crate::forwarding::only_value;

const TRACEPARENT: &str = "traceparent";
/// Vendor data of a trace. It has no meaning without `traceparent`.
const TRACESTATE: &str = "tracestate";
const B3_SINGLE: &str = "b3";
const B3_PREFIX: &str = "x-b3-";

/// The trace to which a request belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    /// 32 hexadecimal digits.
    pub(crate) trace_id: String,
    /// 16 hexadecimal digits.
    span_id: String,
    is_sampled: bool,
}

/// Which trace headers of a request are kept, and which are replaced.
#[derive(Debug)]
pub(crate) struct Traced {
    /// The trace; `None` if W3C is off and the client sent only the decision not to sample (B3).
    pub(crate) context: Option<TraceContext>,
    replaces_w3c: bool,
    replaces_b3: bool,
}

impl Traced {
    /// Reads the trace headers of `head`, and appends generated ones to `fields`.
    pub(crate) fn of(
        trace: &Trace,
        head: &RequestHead<'_>,
        entropy: &Entropy,
        is_sampled: impl FnOnce() -> bool,
        fields: &mut Vec<(&'static str, String)>,
    ) -> Traced {
        let w3c = trace.w3c.then(|| of_w3c(head)).flatten();
        let b3 = if trace.b3 == B3::Off { B3Headers::No } else { of_b3(head) };
        let came = w3c.clone().or_else(|| b3.context());
        let context = came.unwrap_or_else(|| TraceContext {
            trace_id: entropy.hex::<16>(),
            span_id: entropy.hex::<8>(),
            is_sampled: !matches!(b3, B3Headers::Denied) && is_sampled(),
        });
        let traced = Traced {
            replaces_w3c: trace.w3c && w3c.is_none(),
            replaces_b3: trace.b3 != B3::Off && matches!(b3, B3Headers::No),
            context: None,
        };
        let TraceContext { trace_id, span_id, is_sampled } = &context;
        let sampled = u8::from(*is_sampled);
        if traced.replaces_w3c {
            fields.push((TRACEPARENT, format!("00-{trace_id}-{span_id}-0{sampled}")));
        }
        match trace.b3 {
            B3::Single if traced.replaces_b3 => {
                fields.push((B3_SINGLE, format!("{trace_id}-{span_id}-{sampled}")));
            }
            B3::Multi if traced.replaces_b3 => {
                fields.push(("X-B3-TraceId", trace_id.clone()));
                fields.push(("X-B3-SpanId", span_id.clone()));
                fields.push(("X-B3-Sampled", sampled.to_string()));
            }
            _ => {}
        }
        let has_trace = trace.w3c || !matches!(b3, B3Headers::Denied);
        Traced { context: has_trace.then_some(context), ..traced }
    }

    /// Whether to remove the client's header field `name`.
    pub(crate) fn replaces(&self, name: &str) -> bool {
        let is_w3c = || name.eq_ignore_ascii_case(TRACEPARENT) || name.eq_ignore_ascii_case(TRACESTATE);
        self.replaces_w3c && is_w3c() || self.replaces_b3 && is_of_b3(name)
    }
}

fn is_of_b3(name: &str) -> bool {
    let has_prefix =
        |name: &str| name.get(..B3_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(B3_PREFIX));
    name.eq_ignore_ascii_case(B3_SINGLE) || has_prefix(name)
}

/// The trace in `traceparent`. Unknown versions are parsed like version 00, and may have more parts.
fn of_w3c(head: &RequestHead<'_>) -> Option<TraceContext> {
    let value = std::str::from_utf8(only_value(head, TRACEPARENT)?).ok()?;
    let mut parts = value.split('-');
    let [version, trace_id, span_id, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    let is_known = version == "00" && parts.next().is_none();
    let is_later = version != "00" && version != "ff";
    let is_right = is_hex(version, 2) && is_id(trace_id, 32) && is_id(span_id, 16) && is_hex(flags, 2);
    (is_right && (is_known || is_later)).then(|| TraceContext {
        trace_id: trace_id.to_owned(),
        span_id: span_id.to_owned(),
        is_sampled: u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1),
    })
}

/// The B3 headers of a request.
enum B3Headers {
    No,
    /// The headers contain only the decision not to sample.
    Denied,
    Context(TraceContext),
}

impl B3Headers {
    fn context(&self) -> Option<TraceContext> {
        match self {
            B3Headers::Context(context) => Some(context.clone()),
            B3Headers::No | B3Headers::Denied => None,
        }
    }
}

fn of_b3(head: &RequestHead<'_>) -> B3Headers {
    let text = |name: &str| only_value(head, name).and_then(|value| std::str::from_utf8(value).ok());
    if let Some(single) = text(B3_SINGLE) {
        if single == "0" {
            return B3Headers::Denied;
        }
        let mut parts = single.split('-');
        return match (parts.next(), parts.next()) {
            (Some(trace_id), Some(span_id)) => context(trace_id, span_id, parts.next()),
            _ => B3Headers::No,
        };
    }
    // If the `b3` field is repeated, its value is ambiguous.
    if head.fields.iter().any(|field| field.name.eq_ignore_ascii_case(B3_SINGLE)) {
        return B3Headers::No;
    }
    let flags = text("x-b3-flags").filter(|flags| *flags == "1");
    let sampled = flags.or_else(|| text("x-b3-sampled"));
    match (text("x-b3-traceid"), text("x-b3-spanid")) {
        (Some(trace_id), Some(span_id)) => context(trace_id, span_id, sampled),
        (None, None) if matches!(sampled, Some("0" | "false")) => B3Headers::Denied,
        _ => B3Headers::No,
    }
}

/// A B3 trace if the IDs are valid. A trace ID of 16 digits is padded with zeros to 32.
fn context(trace_id: &str, span_id: &str, sampled: Option<&str>) -> B3Headers {
    let is_right = (is_id(trace_id, 32) || is_id(trace_id, 16)) && is_id(span_id, 16);
    let is_sampled = match sampled {
        // Without a decision, the next hop decides.
        None | Some("1" | "d" | "true") => true,
        Some("0" | "false") => false,
        Some(_) => return B3Headers::No,
    };
    match is_right {
        true => B3Headers::Context(TraceContext {
            trace_id: format!("{trace_id:0>32}"),
            span_id: span_id.to_owned(),
            is_sampled,
        }),
        false => B3Headers::No,
    }
}

/// Whether `text` is an id: `digits` hexadecimal digits, not all 0.
fn is_id(text: &str, digits: usize) -> bool {
    is_hex(text, digits) && text.bytes().any(|byte| byte != b'0')
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use weir_http::{FieldSlots, HeadLimits, parse_request};

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    /// Checks which of `fields` a request keeps, and which fields are generated.
    fn check(trace: &Trace, fields: &str, kept: &[&str], made: &[(&str, &str)]) {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let mut slots = FieldSlots::new();
        let head = parse_request(text.as_bytes(), &HeadLimits::default(), &mut slots).unwrap().unwrap();
        let mut out = Vec::new();
        let traced = Traced::of(trace, &head, &Entropy::default(), || true, &mut out);
        let own = head.fields.iter().map(|field| field.name).filter(|name| *name != "Host");
        assert_eq!(own.filter(|name| !traced.replaces(name)).collect::<Vec<_>>(), kept, "{fields:?}");
        let context = traced.context.map_or(String::new(), |context| context.trace_id);
        let expected: Vec<(&str, String)> =
            made.iter().map(|(name, value)| (*name, value.replace("{made}", &context))).collect();
        let drawn = |value: &str| value.replace(&context, "T").len();
        for ((name, value), (wanted, like)) in out.iter().zip(&expected) {
            let is_same = value == like || like.contains("{span}") && drawn(value) == drawn(like) + 10;
            assert!(name == wanted && is_same, "{fields:?}: {name}: {value}, not {like}");
        }
        assert_eq!(out.len(), expected.len(), "{fields:?}: {out:?}");
    }

    fn with(b3: B3) -> Trace {
        Trace { b3, ..Trace::default() }
    }

    #[test]
    fn a_valid_traceparent_passes_with_its_tracestate() {
        let fields = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\nTraceState: a=b\r\n");
        check(&with(B3::Off), &fields, &["traceparent", "TraceState"], &[]);
        let later = format!("traceparent: cc-{TRACE}-{SPAN}-01-more\r\n");
        check(&with(B3::Off), &later, &["traceparent"], &[]);
        check(
            &with(B3::Single),
            &fields,
            &["traceparent", "TraceState"],
            &[("b3", &format!("{TRACE}-{SPAN}-1"))],
        );
        let multi = [("X-B3-TraceId", TRACE), ("X-B3-SpanId", SPAN), ("X-B3-Sampled", "1")];
        check(&with(B3::Multi), &fields, &["traceparent", "TraceState"], &multi);
    }

    #[test]
    fn an_invalid_traceparent_is_replaced_and_its_tracestate_removed() {
        for wrong in [
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-01\r\ntraceparent: 00-{TRACE}-{SPAN}-01"),
        ] {
            let fields = format!("traceparent: {wrong}\r\ntracestate: a=b\r\n");
            check(&with(B3::Off), &fields, &[], &[("traceparent", "00-{made}-{span}-01")]);
        }
    }

    #[test]
    fn a_b3_trace_is_also_sent_as_w3c() {
        let traceparent = format!("00-{TRACE}-{SPAN}-00");
        let single = format!("b3: {TRACE}-{SPAN}-0\r\n");
        check(&with(B3::Single), &single, &["b3"], &[("traceparent", &traceparent)]);
        let multi = format!("X-B3-TraceId: {TRACE}\r\nX-B3-SpanId: {SPAN}\r\nX-B3-Sampled: 0\r\n");
        let own = ["X-B3-TraceId", "X-B3-SpanId", "X-B3-Sampled"];
        check(&with(B3::Single), &multi, &own, &[("traceparent", &traceparent)]);
        let short = format!("b3: {SPAN}-{SPAN}-d\r\n");
        let padded = format!("00-{}{SPAN}-{SPAN}-01", "0".repeat(16));
        check(&with(B3::Single), &short, &["b3"], &[("traceparent", &padded)]);
    }

    #[test]
    fn a_client_can_refuse_sampling() {
        check(&with(B3::Single), "b3: 0\r\n", &["b3"], &[("traceparent", "00-{made}-{span}-00")]);
        check(&Trace { w3c: false, ..with(B3::Multi) }, "X-B3-Sampled: 0\r\n", &["X-B3-Sampled"], &[]);
    }

    #[test]
    fn invalid_b3_is_replaced() {
        for wrong in ["b3: x\r\n", "b3: 1\r\n", "X-B3-TraceId: 1\r\n", "b3: 0\r\nb3: 0\r\n"] {
            let b3 = Trace { w3c: false, ..with(B3::Single) };
            check(&b3, wrong, &[], &[("b3", "{made}-{span}-1")]);
        }
    }
}
