//! Checks that long lists in headers are cheap to parse: the work per byte does not grow with the length of a list
//! or the number of fields.

use weir_http::{
    CONNECTION_NAMES_MAX, FieldSlots, HeadLimits, ResponseTo, parse_request, parse_response, work,
};

/// Maximum number of units of work per byte. In the worst case, `Connection` names the maximum number of fields, and
/// all field names have the same length.
const UNITS_PER_BYTE_MAX: f64 = CONNECTION_NAMES_MAX as f64;

const LIMITS: HeadLimits = HeadLimits { head_bytes: 1 << 20, target_bytes: 8192, fields: 128 };

/// The header fields whose values are parsed as lists.
const LISTS: [&str; 6] = ["Connection", "Transfer-Encoding", "Content-Length", "TE", "Upgrade", "Expect"];

/// Headers in which the field `name` has a list of about `bytes` bytes, in various shapes.
fn heads(start: &str, name: &str, bytes: usize) -> Vec<String> {
    let numbered = |token: &str, count: usize| (0..count).map(|n| format!("{token}{n}")).collect::<Vec<_>>();
    let short = "a:\r\n".repeat(97);
    let long = "abcdefghijklmnopqrst:\r\n".repeat(97);
    let names = numbered("abcdefghijklmnopqr", 100)[84..].join(",");
    let single = ('a'..='p').map(String::from).collect::<Vec<_>>().join(",");
    let mut values = vec![
        ",".repeat(bytes),
        format!("x-own{}", ",".repeat(bytes)),
        format!("{}{single}", ",".repeat(bytes)),
        numbered("x", bytes / 7).join(","),
        numbered("x", bytes / 9).join(" , "),
        " ,\t".repeat(bytes / 3),
        "close,".repeat(bytes / 6),
        "chunked,".repeat(bytes / 8),
        "1,".repeat(bytes / 2),
        single,
        names,
    ];
    values.push(format!("{},x", "keep-alive,".repeat(bytes / 11)));
    // Large headers are tested only with the first four list shapes, because parsing them is slow in a debug build.
    let is_large = bytes > 100_000;
    values.truncate(if is_large { 4 } else { values.len() });
    let lines = values.into_iter().flat_map(|value| {
        let split = value.replace(",x", &format!("\r\n{name}: x"));
        let is_few = split.matches("\r\n").count() < 20;
        let split = is_few.then(|| format!("{name}: {split}\r\n"));
        [Some(format!("{name}: {value}\r\n")), split].into_iter().flatten()
    });
    let mut heads = Vec::new();
    for line in lines {
        let all = [&short, &long, ""];
        for beside in if is_large { &all[..1] } else { &all } {
            heads.push(format!("{start}\r\n{line}{beside}\r\n"));
            if !is_large {
                heads.push(format!("{start}\r\n{beside}{line}\r\n"));
            }
        }
    }
    heads
}

fn check(head: &str, read: impl FnOnce(&[u8]) -> usize) -> f64 {
    let (passed_on, units) = work::of(|| read(head.as_bytes()));
    let per_byte = units as f64 / head.len() as f64;
    let start: String = head.chars().take(80).collect();
    assert!(per_byte <= UNITS_PER_BYTE_MAX, "{per_byte} units per byte, {passed_on} fields: {start:?}");
    per_byte
}

#[test]
fn long_lists_cost_no_more_per_byte_than_short_ones() {
    let mut most: f64 = 0.0;
    for (index, name) in LISTS.into_iter().enumerate() {
        for bytes in if index < 2 { &[31_200, 1_000_000][..] } else { &[31_200] } {
            let bytes = *bytes;
            for head in heads("GET / HTTP/1.1\r\nHost: a", name, bytes) {
                most = most.max(check(&head, |bytes| {
                    let mut slots = FieldSlots::new();
                    let head = parse_request(bytes, &LIMITS, &mut slots);
                    head.map_or(0, |head| head.expect("the head is whole").end_to_end().count())
                }));
            }
            for head in heads("HTTP/1.1 200 OK", name, bytes) {
                most = most.max(check(&head, |bytes| {
                    let mut slots = FieldSlots::new();
                    let head = parse_response(bytes, ResponseTo::Other, &LIMITS, &mut slots);
                    head.map_or(0, |head| head.expect("the head is whole").end_to_end().count())
                }));
            }
        }
    }
    assert!(most > 1.0, "nothing was counted");
}
