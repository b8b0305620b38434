//! A parser that is as lenient as the worst origins. If bytes can be read in two ways, it chooses the way with more
//! requests. A request that this parser sees, but a strict parser does not, is smuggled.

/// A request as this parser reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) target: String,
    /// The value of `X-Id`, or empty.
    pub(crate) id: String,
}

/// The first request in these bytes, and its length. `None` if it is incomplete.
pub(crate) fn next(bytes: &[u8]) -> Option<(Seen, usize)> {
    let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let mut at = start;
    let mut lines: Vec<String> = Vec::new();
    loop {
        let (line, end) = line(bytes, at)?;
        at = end;
        match line.as_str() {
            "" => break,
            folded if folded.starts_with([' ', '\t']) && !lines.is_empty() => {
                if let Some(last) = lines.last_mut() {
                    last.push_str(folded);
                }
            }
            _ => lines.push(line),
        }
    }
    let target = lines.first()?.split_whitespace().nth(1).unwrap_or("").to_owned();
    let values = |name: &str| {
        let values = lines[1..].iter().filter_map(|line| line.split_once(':'));
        values
            .filter(|(n, _)| tidy(n).eq_ignore_ascii_case(name))
            .map(|(_, value)| tidy(value))
            .collect::<Vec<_>>()
    };
    let id = values("x-id").into_iter().next().unwrap_or_default();
    let is_chunked = values("transfer-encoding").iter().any(|v| v.to_ascii_lowercase().contains("chunked"));
    let end = if is_chunked {
        chunks_end(bytes, at)?
    } else {
        let length = values("content-length").iter().map(|value| number(value, 10)).next().unwrap_or(0);
        at.checked_add(length).filter(|end| *end <= bytes.len())?
    };
    Some((Seen { target, id }, end))
}

/// The position after a chunked body. `None` if the body is incomplete.
fn chunks_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let (size_line, data) = line(bytes, at)?;
        let size = number(size_line.trim_start().trim_start_matches("0x"), 16);
        at = data.checked_add(size)?;
        if size == 0 {
            break;
        }
        while matches!(bytes.get(at)?, b'\r' | b'\n') {
            at += 1;
        }
    }
    loop {
        let (trailer, end) = line(bytes, at)?;
        at = end;
        if trailer.is_empty() {
            return Some(at);
        }
    }
}

/// A line that ends in CR LF, LF or CR, and the start of the next one.
fn line(bytes: &[u8], from: usize) -> Option<(String, usize)> {
    let rest = bytes.get(from..)?;
    let len = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let end = if rest[len] == b'\r' && rest.get(len + 1) == Some(&b'\n') { len + 2 } else { len + 1 };
    Some((String::from_utf8_lossy(&rest[..len]).into_owned(), from + end))
}

/// The leading digits of a text, after an optional sign; 0 if there are none.
fn number(text: &str, radix: u32) -> usize {
    let text = text.trim_start_matches(['+', '-']);
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_digit(radix)).len();
    usize::from_str_radix(&text[..digits], radix).unwrap_or(0)
}

fn tidy(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect()
}
