//! Requests from a file: a list of URLs, JSON lines, or a recorded session (HAR).
//!
//! - A list has one URL or path a line, perhaps with a method before it; `#` begins a comment.
//! - JSON lines have an object a line: `{"method": "PUT", "path": "/x", "headers": {"A": "b"}, "body": "..",
//!   "name": "put", "weight": 2, "checks": {"status": "2xx"}}`, with `path` or `url` alone needed.
//! - HAR 1.2, as browsers save it: `log.entries[].request`. What was recorded is sent as it is, so that nothing in
//!   it is a template; the recorded host is mapped to the load's target, and other hosts are left out.
//!
//! The ending of the file's name or its first bytes tell which it is. In lists and JSON lines a URL's authority becomes
//! the request's Host; all go to the load's own target. What is asked for more than once becomes one request of more
//! weight.

mod har;
mod json;
mod list;
mod merge;
mod target;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use weir_document::{Position, Problem};
use weir_results::LeftOut;

use self::merge::Merger;
use crate::EngineError;
use crate::spec::{REQUESTS_MAX, RequestFileSpec, RequestSpec};

/// Most bytes of a file of requests.
pub const REQUEST_FILE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// What the requests of a file take from the load.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// Method, fields (`Host` among them), body, name, weight and checks of requests that don't say them. A field
    /// of the same name takes the place of the base's.
    pub request: RequestSpec,
    /// Whether the method was asked for: else a request with a body of its own is a POST.
    pub is_method_given: bool,
    /// Whether the target is `https`: URLs of the other scheme are refused.
    pub is_https: bool,
}

impl RequestFileSpec {
    /// What the requests of the file take from the load.
    pub fn base(&self, is_https: bool) -> Base {
        Base { request: self.base.clone(), is_method_given: self.is_method_given, is_https }
    }
}

impl Base {
    fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    /// The value of Host, where the load gives one.
    fn host(&self) -> Option<&str> {
        let fields = &self.request.headers;
        fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, value)| value.as_str())
    }
}

/// Takes requests as they are read.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(RequestSpec) -> Result<(), Problem<()>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    List,
    JsonLines,
    Har,
}

/// Reads the requests of a file.
///
/// # Errors
/// When it cannot be read, or as [`parse`].
pub fn read(path: &Path, base: &Base) -> Result<Vec<RequestSpec>, Problem<Position>> {
    let (source_name, text) = open(path)?;
    parse(&source_name, &text, base)
}

/// Reads requests from the text of a file; `source_name` stands in errors, and its ending tells the format.
///
/// # Errors
/// With the place of the first request that makes no sense, and when there is none or there are too many.
pub fn parse(source_name: &str, text: &[u8], base: &Base) -> Result<Vec<RequestSpec>, Problem<Position>> {
    let mut merger = Merger::default();
    parse_each(source_name, text, base, REQUESTS_MAX, &mut |request| merger.push(request))?;
    Ok(merger.into_requests())
}

fn open(path: &Path) -> Result<(String, Vec<u8>), Problem<Position>> {
    let source_name = path.display().to_string();
    let mut text = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(REQUEST_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text));
    match read {
        Ok(_) => Ok((source_name, text)),
        Err(error) => Err(whole(&source_name, format!("cannot read the file: {error}"), "correct the path")),
    }
}

/// Reads the requests of a file and hands each to `sink`, with no more of them in memory.
///
/// Gives what was left out where it is a recorded session, and `None` where it is another file.
pub(crate) fn read_each(
    path: &Path,
    base: &Base,
    sink: Sink<'_>,
) -> Result<Option<LeftOut>, Problem<Position>> {
    let (source_name, text) = open(path)?;
    parse_each(&source_name, &text, base, REQUESTS_MAX, sink)
}

fn parse_each(
    source_name: &str,
    text: &[u8],
    base: &Base,
    requests_max: usize,
    sink: Sink<'_>,
) -> Result<Option<LeftOut>, Problem<Position>> {
    if text.len() > REQUEST_FILE_BYTES_MAX {
        let message = format!("the file is larger than {} MiB", REQUEST_FILE_BYTES_MAX >> 20);
        return Err(whole(source_name, message, "split the file"));
    }
    let text = match str::from_utf8(text) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let line = 1 + memchr::memchr_iter(b'\n', &text[..error.valid_up_to()]).count() as u64;
            let fault = Problem::new("the line is not UTF-8 text", "percent-encode other bytes");
            return Err(fault.at(Position::new(source_name, line, 1)));
        }
    };
    let mut count = 0;
    let mut sink = |request: RequestSpec| {
        count += 1;
        if count > requests_max {
            return Err(Problem::new(format!("more than {requests_max} requests"), "split the file"));
        }
        request.validate()?;
        sink(request)
    };
    let format = Format::of(source_name, text);
    let left_out = match format {
        Format::List => list::parse(source_name, text, base, &mut sink).map(|()| None)?,
        Format::JsonLines => json::parse(source_name, text, base, &mut sink).map(|()| None)?,
        Format::Har => Some(har::parse(source_name, text, base, &mut sink)?),
    };
    match (count, format) {
        (0, Format::Har) => {
            Err(whole(source_name, "the file has no HTTP request", "record a session with at least one"))
        }
        (0, _) => Err(whole(source_name, "the file has no requests", "write one URL or path per line")),
        _ => Ok(left_out),
    }
}

impl Format {
    fn of(source_name: &str, text: &str) -> Self {
        let ending = source_name.rsplit_once('.').map_or("", |(_, ending)| ending);
        match ending.to_ascii_lowercase().as_str() {
            "har" => return Self::Har,
            "jsonl" | "ndjson" => return Self::JsonLines,
            _ => {}
        }
        // A HAR is one object with one name in it; a list's lines begin with letters, `/` or `#`.
        match text.trim_start().strip_prefix('{') {
            Some(inside) if inside.trim_start().starts_with("\"log\"") => Self::Har,
            Some(_) => Self::JsonLines,
            None => Self::List,
        }
    }
}

impl From<EngineError> for Problem<()> {
    fn from(error: EngineError) -> Self {
        Problem::new(error.to_string(), error.remedy())
    }
}

/// An error of the file as a whole.
fn whole(source_name: &str, message: impl Into<String>, remedy: &str) -> Problem<Position> {
    Problem::new(message, remedy).at(Position::whole(source_name))
}

/// Sets a field, in the place of one of the same name.
fn set_field(fields: &mut Vec<(String, String)>, name: &str, value: String) {
    match fields.iter_mut().find(|(given, _)| given.eq_ignore_ascii_case(name)) {
        Some(field) => field.1 = value,
        // Host goes first (RFC 9110, 7.2).
        None if name.eq_ignore_ascii_case("host") => fields.insert(0, (name.to_owned(), value)),
        None => fields.push((name.to_owned(), value)),
    }
}

/// Puts fields in the place of all of their names; several of one name stay several.
fn set_fields(fields: &mut Vec<(String, String)>, own: Vec<(String, String)>) {
    fields.retain(|(given, _)| !own.iter().any(|(name, _)| name.eq_ignore_ascii_case(given)));
    fields.extend(own);
}

#[cfg(test)]
mod har_tests;
#[cfg(test)]
mod tests;
