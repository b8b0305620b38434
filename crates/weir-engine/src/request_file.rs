//! Requests from a file: a list of URLs, JSON lines, or a recorded session (HAR).
//!
//! - A list has one URL or path per line, with an optional method before it. `#` starts a comment.
//! - JSON lines have one object per line: `{"method": "PUT", "path": "/x", "headers": {"A": "b"}, "body": "..", "name":
//!   "put", "weight": 2, "checks": {"status": "2xx"}}`. Only `path` or `url` is required.
//! - HAR 1.2, as browsers save it: `log.entries[].request`. Recorded requests are sent unchanged, without templates.
//!   The recorded host is mapped to the load's target; entries of other hosts are left out.
//!
//! The suffix of the file name or the first bytes decide the format. In lists and JSON lines, the authority of a URL
//! becomes the request's Host. All requests go to the load's target. Equal requests are merged into one with a higher
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

/// Maximum size of a request file.
pub const REQUEST_FILE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Values of the load that apply to the requests of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// Method, header fields (including `Host`), body, name, weight and checks for requests that do not set their own.
    /// A header field that a request sets replaces the base fields of the same name.
    pub request: RequestSpec,
    /// Whether the user configured the method. If not, a request with its own body and without a method is a POST.
    pub is_method_given: bool,
    /// Whether the target uses `https`. URLs with the other scheme are rejected.
    pub is_https: bool,
}

impl RequestFileSpec {
    /// The values of the load that apply to the requests of this file.
    pub fn base(&self, is_https: bool) -> Base {
        Base { request: self.base.clone(), is_method_given: self.is_method_given, is_https }
    }
}

impl Base {
    fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    /// The value of the Host header field, if the load sets one.
    fn host(&self) -> Option<&str> {
        let fields = &self.request.headers;
        fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, value)| value.as_str())
    }
}

/// Receives the requests of a file one by one, while the file is read.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(RequestSpec) -> Result<(), Problem<()>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    List,
    JsonLines,
    Har,
}

/// Reads the requests of a file. Equal requests are merged into one.
///
/// # Errors
/// If the file cannot be read; otherwise like [`parse`].
pub fn read(path: &Path, base: &Base) -> Result<Vec<RequestSpec>, Problem<Position>> {
    let (source_name, text) = open(path)?;
    parse(&source_name, &text, base)
}

/// Parses the requests in the text of a file. `source_name` is the file name for errors. The suffix of this name
/// decides the format. If the suffix is unknown, the beginning of the text decides.
///
/// # Errors
/// If a request is invalid, with the position of the first one. If the file has too many requests, with the position of
/// the first request above the limit. If the file is too large or has no requests, the error is for the whole file.
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

/// Reads a file and passes its requests to `sink` one by one.
///
/// For a recorded session, returns how many entries were left out, and why. For other formats, returns `None`.
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
            let fault = Problem::new("the line is not UTF-8 text", "save the file as UTF-8");
            return Err(fault.at(Position::new(source_name, line, 1)));
        }
    };
    let mut count = 0;
    let mut sink = |request: RequestSpec| {
        count += 1;
        if count > requests_max {
            return Err(Problem::new(
                format!("the file has more than {requests_max} requests"),
                "split the file",
            ));
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
            Err(whole(source_name, "the file has no HTTP request", "record a session with HTTP requests"))
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
        // A HAR is an object whose only member is `log`. A file in the list format starts with a letter, `/` or `#`.
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

/// An error that concerns the whole file.
fn whole(source_name: &str, message: impl Into<String>, remedy: &str) -> Problem<Position> {
    Problem::new(message, remedy).at(Position::whole(source_name))
}

/// Sets a header field, and replaces a header field of the same name.
fn set_field(fields: &mut Vec<(String, String)>, name: &str, value: String) {
    match fields.iter_mut().find(|(given, _)| given.eq_ignore_ascii_case(name)) {
        Some(field) => field.1 = value,
        // Host comes first (RFC 9110, 7.2).
        None if name.eq_ignore_ascii_case("host") => fields.insert(0, (name.to_owned(), value)),
        None => fields.push((name.to_owned(), value)),
    }
}

/// Sets header fields. They replace all existing header fields of the same names. If several new header fields have the
/// same name, all of them are kept.
fn set_fields(fields: &mut Vec<(String, String)>, own: Vec<(String, String)>) {
    fields.retain(|(given, _)| !own.iter().any(|(name, _)| name.eq_ignore_ascii_case(given)));
    fields.extend(own);
}

#[cfg(test)]
mod har_tests;
#[cfg(test)]
mod tests;
