//! Reads request files with one URL or path per line, and an optional method before it.

use weir_document::{Position, Problem};

use super::{Base, Sink, target};
use crate::spec::{RequestSpec, is_token_byte};

pub(super) fn parse(
    source_name: &str,
    text: &str,
    base: &Base,
    sink: Sink<'_>,
) -> Result<(), Problem<Position>> {
    for (line, number) in text.lines().zip(1..) {
        let request = line.trim();
        if request.is_empty() || request.starts_with('#') {
            continue;
        }
        let column = 1 + line.chars().take_while(|letter| letter.is_whitespace()).count() as u64;
        parse_line(request, base)
            .and_then(&mut *sink)
            .map_err(|fault| fault.at(Position::new(source_name, number, column)))?;
    }
    Ok(())
}

fn parse_line(line: &str, base: &Base) -> Result<RequestSpec, Problem<()>> {
    let mut request = base.request.clone();
    let is_method = |word: &str| word.bytes().all(is_token_byte) && word != "*";
    let url = match line.split_once(char::is_whitespace) {
        Some((method, url)) if is_method(method) => {
            request.method = method.to_owned();
            url.trim_start()
        }
        _ => line,
    };
    target::apply(&mut request, url, base)?;
    Ok(request)
}
