//! Tests of the elements that trusted proxies append to `X-Forwarded-For` and `Forwarded`.

use weir_http::{AddressField, Field, TrustedElements};

use crate::trusted_property;

/// Returns three texts if `hops` proxies are trusted: the client's address, the value of `X-Forwarded-For`, and the
/// value of `Forwarded`.
fn read(field: AddressField, hops: usize, lines: &[&[u8]]) -> [String; 3] {
    let fields: Vec<Field<'_>> = lines.iter().map(|value| Field { name: field.name(), value }).collect();
    let trusted = TrustedElements::of(&fields, field, hops);
    let (mut plain, mut forwarded) = (String::new(), String::new());
    trusted.append_x_forwarded_for(&mut plain);
    trusted.append_forwarded(&mut forwarded);
    let client = trusted.client().map_or("none".to_owned(), |ip| ip.to_string());
    [client, plain.trim_end_matches(", ").to_owned(), forwarded.trim_end_matches(", ").to_owned()]
}

#[test]
fn clients_cannot_forge_or_hide_their_address() {
    use AddressField::{Forwarded, XForwardedFor};
    let check = |field, hops, lines: &[&[u8]], expected: [&str; 3]| {
        assert_eq!(read(field, hops, lines), expected, "{field:?} {hops} {lines:?}");
    };
    let one = ["192.0.2.1", "192.0.2.1", "for=192.0.2.1"];
    // The trusted proxy appended the last element of each line. The client sent everything before it.
    for line in [
        &b"6.6.6.6, \"x, 192.0.2.1"[..],
        b"\xff, 192.0.2.1",
        b"\\, 192.0.2.1",
        b",,, 192.0.2.1",
        b"192.0.2.1",
        b"unknown,_hidden,192.0.2.1",
        b"for=\"6.6.6.6, 192.0.2.1",
    ] {
        check(XForwardedFor, 1, &[line], one);
        check(XForwardedFor, 1, &[b"6.6.6.6, \"", b"\xff", line, b""], one);
        let (client, appended) = line.split_at(line.len() - "192.0.2.1".len());
        let quoted = [client, b"for=\"192.0.2.1\""].concat();
        check(Forwarded, 1, &[&quoted], [one[0], one[1], "for=\"192.0.2.1\""]);
        check(Forwarded, 1, &[client, &[b"for=", appended].concat()], one);
    }
    let two = ["192.0.2.1", "192.0.2.1, 192.0.2.2", "for=192.0.2.1, for=192.0.2.2"];
    check(XForwardedFor, 2, &[b"6.6.6.6, \"x, 192.0.2.1, 192.0.2.2"], two);
    check(XForwardedFor, 2, &[b"6.6.6.6, \"x", b"192.0.2.1", b"192.0.2.2"], two);
    check(Forwarded, 2, &[b"for=6.6.6.6;host=\"x, for=192.0.2.1, for=192.0.2.2"], two);
    let one_of_v6 = ["2001:db8::1", "[2001:db8::1]:4711", "for=\"[2001:db8::1]:4711\""];
    check(Forwarded, 1, &[b"x, for=\"1.1.1.1, for=\"[2001:db8::1]:4711\""], one_of_v6);
}

#[test]
fn elements_without_an_address_keep_their_position() {
    use AddressField::{Forwarded, XForwardedFor};
    let check = |field, lines: &[&[u8]], expected: [&str; 3]| {
        assert_eq!(read(field, 2, lines), expected, "{field:?} {lines:?}");
    };
    let hidden = ["none", "unknown, 192.0.2.2", "for=unknown, for=192.0.2.2"];
    for element in
        [&b"unknown"[..], b"unix:", b"300.1.1.1", b"1.2.3.4:123456", b"\xff", b"1.2.3.4 5", b"[1.2.3.4]"]
    {
        check(XForwardedFor, &[&[b"6.6.6.6, ", element, b", 192.0.2.2"].concat()], hidden);
    }
    check(
        XForwardedFor,
        &[b"_a:_b, 192.0.2.2"],
        ["none", "_a:_b, 192.0.2.2", "for=\"_a:_b\", for=192.0.2.2"],
    );
    // Malformed or ambiguous elements become `unknown`.
    for element in
        [&b"for=\"1.1.1.1\"x"[..], b"for=1.1.1.1;for=2.2.2.2", b"for", b"=1.1.1.1", b"for=;x=\"\xff\""]
    {
        check(Forwarded, &[&[b"for=6.6.6.6, ", element, b", for=192.0.2.2"].concat()], hidden);
    }
    // Well-formed elements are kept, with or without an address.
    check(Forwarded, &[b"proto=https, for=192.0.2.2"], ["none", hidden[1], "proto=https, for=192.0.2.2"]);
    let escaped = b"host=\"a,\\\"b\";FOR=\"\\1.1.1.1\", for=192.0.2.2";
    check(Forwarded, &[escaped], ["1.1.1.1", "1.1.1.1, 192.0.2.2", std::str::from_utf8(escaped).unwrap()]);
    let bytes = b"for=1.1.1.1;host=\"\xff\", for=192.0.2.2";
    check(Forwarded, &[bytes], ["1.1.1.1", "1.1.1.1, 192.0.2.2", "for=1.1.1.1, for=192.0.2.2"]);
    check(
        Forwarded,
        &[b"for=2001:db8::1,for=192.0.2.2"],
        ["2001:db8::1", "2001:db8::1, 192.0.2.2", "for=2001:db8::1, for=192.0.2.2"],
    );
}

#[test]
fn all_elements_are_read_if_fewer_than_the_proxies() {
    let found = read(AddressField::XForwardedFor, 9, &[b"192.0.2.1:80 ,", b"2001:db8::2"]);
    assert_eq!(
        found,
        ["192.0.2.1", "192.0.2.1:80, 2001:db8::2", "for=\"192.0.2.1:80\", for=\"[2001:db8::2]\""]
    );
    assert_eq!(read(AddressField::XForwardedFor, 0, &[b"192.0.2.1"]), ["none", "", ""]);
    assert_eq!(read(AddressField::Forwarded, 1, &[]), ["none", "", ""]);
}

#[test]
fn client_input_does_not_change_trusted_elements() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..10_000 {
        let data: Vec<u8> = (0..64)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect();
        trusted_property::check(&data);
    }
}
