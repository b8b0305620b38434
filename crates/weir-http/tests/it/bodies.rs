//! Tests of chunked bodies, well-formed and malformed, of bodies with a length, and of bodies that last until the
//! connection closes.

use weir_http::{BodyDecoder, BodyError, Framing};

/// Decodes a body that arrives in pieces. Returns its data, its trailers, and the number of bytes after its end.
fn decode(framing: Framing, pieces: &[&[u8]]) -> Result<(String, String, usize), &'static str> {
    let mut decoder = BodyDecoder::new(framing);
    let (mut body, mut left_over, mut done) = (Vec::new(), 0, false);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() && !done {
            let step = decoder.step(rest).map_err(BodyError::kind)?;
            assert!(step.consumed > 0 || step.done);
            body.extend_from_slice(&rest[step.data]);
            rest = &rest[step.consumed..];
            done = step.done;
        }
        left_over += rest.len();
    }
    decoder.finish().map_err(BodyError::kind)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&body), text(decoder.trailers()), left_over))
}

/// Checks how a chunked body is decoded, as a whole and split at every byte.
fn check(input: &str, expected: Result<(&str, &str, usize), &str>) {
    let expected =
        expected.map(|(body, trailers, left_over)| (body.to_owned(), trailers.to_owned(), left_over));
    let bytes = input.as_bytes();
    for cut in 0..=bytes.len() {
        let found = decode(Framing::Chunked, &[&bytes[..cut], &bytes[cut..]]);
        assert_eq!(found, expected, "{input:?} cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode(Framing::Chunked, &single), expected, "{input:?} byte by byte");
}

#[test]
fn well_formed_chunks_are_accepted() {
    for (input, body, trailers, left_over) in [
        ("0\r\n\r\n", "", "", 0),
        ("0\r\n\r\nnext", "", "", 4),
        ("5\r\nhello\r\n0\r\n\r\n", "hello", "", 0),
        ("5\r\nhello\r\n6\r\n world\r\n00\r\n\r\n", "hello world", "", 0),
        ("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", "", 0),
        ("000000000000000a\r\n0123456789\r\n0\r\n\r\n", "0123456789", "", 0),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", "", 0),
        ("1;a\r\nx\r\n0;b=c\r\n\r\n", "x", "", 0),
        ("1;a=\"b;\\\"c\t\"\r\nx\r\n0\r\n\r\n", "x", "", 0),
        ("1 ; a = b ; c\r\nx\r\n0\r\n\r\n", "x", "", 0),
        ("0\r\nA: b\r\n\r\n", "", "A: b\r\n", 0),
        ("1\r\nx\r\n0\r\nA:b\r\nC:\r\n\r\nnext", "x", "A:b\r\nC:\r\n", 4),
    ] {
        check(input, Ok((body, trailers, left_over)));
    }
}

#[test]
fn malformed_chunks_are_rejected() {
    for (input, expected) in [
        ("", "truncated"),
        ("5", "truncated"),
        ("5\r\nhell", "truncated"),
        ("5\r\nhello\r\n", "truncated"),
        ("5\r\nhello\r\n0\r\n", "truncated"),
        ("0\r\nA: b\r\n", "truncated"),
        ("\r\n", "chunk_size"),
        (" 5\r\nhello\r\n", "chunk_size"),
        ("+5\r\nhello\r\n", "chunk_size"),
        ("-5\r\nhello\r\n", "chunk_size"),
        ("0x5\r\nhello\r\n", "chunk_size"),
        ("5h\r\nhello\r\n", "chunk_size"),
        ("5,5\r\nhello\r\n", "chunk_size"),
        ("5\u{0}\r\nhello\r\n", "chunk_size"),
        ("8000000000000000\r\n", "chunk_size_overflow"),
        ("FFFFFFFFFFFFFFFF\r\n", "chunk_size_overflow"),
        ("10000000000000005\r\n", "chunk_size_overflow"),
        ("00000000000000005\r\nhello\r\n", "chunk_size_overflow"),
        ("5\nhello\r\n", "chunk_bare_lf"),
        ("5\rhello\r\n", "chunk_bare_cr"),
        ("5\r\nhello\n0\r\n\r\n", "chunk_bare_lf"),
        ("5\r\nhello\r0\r\n\r\n", "chunk_bare_cr"),
        ("5\r\nhello0\r\n\r\n", "chunk_end"),
        ("5\r\nhelloworld\r\n0\r\n\r\n", "chunk_end"),
        ("5 \r\nhello\r\n", "chunk_extension"),
        ("5;\r\nhello\r\n", "chunk_extension"),
        ("5 a\r\nhello\r\n", "chunk_extension"),
        ("5;a=\r\nhello\r\n", "chunk_extension"),
        ("5;a=\"b\r\n", "chunk_extension"),
        ("5;a=\"b\rc\"\r\n", "chunk_extension"),
        ("5;a\u{0}\r\n", "chunk_extension"),
        ("5;a=\"\u{1}\"\r\n", "chunk_extension"),
        ("5;a\nhello\r\n0\r\n\r\n", "chunk_bare_lf"),
        ("5;a=\"\n\"\r\n", "chunk_bare_lf"),
        ("5;a\rX\r\n", "chunk_bare_cr"),
        ("0\r\n\n", "trailer"),
        ("0\r\nA: b\n\r\n", "trailer"),
        ("0\r\nA : b\r\n\r\n", "trailer"),
        ("0\r\n A: b\r\n\r\n", "trailer"),
        ("0\r\nA: b\r\n c\r\n\r\n", "trailer"),
        ("0\r\nGET / HTTP/1.1\r\n\r\n", "trailer"),
        ("0\r\nContent-Length: 5\r\n\r\n", "trailer_forbidden"),
        ("0\r\ntransfer-encoding: chunked\r\n\r\n", "trailer_forbidden"),
        ("0\r\nA: b\r\nHOST: c\r\n\r\n", "trailer_forbidden"),
        ("0\r\nConnection: close\r\n\r\n", "trailer_forbidden"),
    ] {
        check(input, Err(expected));
    }
}

#[test]
fn chunk_framing_is_limited() {
    let extension = |bytes: usize| format!("1;{}\r\nx\r\n", "a".repeat(bytes - 1));
    check(&format!("{}0\r\n\r\n", extension(256)), Ok(("x", "", 0)));
    check(&format!("{}0\r\n\r\n", extension(200).repeat(3)), Ok(("xxx", "", 0)));
    check(&extension(257), Err("chunk_extension_too_long"));
    let many = extension(200).repeat(100);
    assert_eq!(decode(Framing::Chunked, &[many.as_bytes()]), Err("chunk_extension_too_long"));

    let long = format!("0\r\nA: {}\r\n\r\n", "b".repeat(8 * 1024));
    assert_eq!(decode(Framing::Chunked, &[long.as_bytes()]), Err("trailers_too_large"));
    let fields = format!("0\r\n{}\r\n", "A: b\r\n".repeat(33));
    assert_eq!(decode(Framing::Chunked, &[fields.as_bytes()]), Err("trailer"));
}

#[test]
fn bodies_end_by_length_or_close() {
    let decode = |framing, input: &str| decode(framing, &[input.as_bytes()]);
    let found = |body: &str, left_over| Ok((body.to_owned(), String::new(), left_over));
    assert_eq!(decode(Framing::None, "next"), found("", 4));
    assert_eq!(decode(Framing::Length(0), "next"), found("", 4));
    assert_eq!(decode(Framing::Length(2), "abnext"), found("ab", 4));
    assert_eq!(decode(Framing::Length(5), "ab"), Err("truncated"));
    assert_eq!(decode(Framing::Length(u64::MAX), "ab"), Err("truncated"));
    assert_eq!(decode(Framing::UntilClose, "ab"), found("ab", 0));
    assert_eq!(decode(Framing::UntilClose, ""), found("", 0));
    assert!(BodyDecoder::new(Framing::None).is_done());
    assert!(!BodyDecoder::new(Framing::UntilClose).is_done());
}
