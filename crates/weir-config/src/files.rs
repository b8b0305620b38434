//! Files that a configuration names. The source reads them and passes their content to this crate.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use weir_document::Problem;

/// The content of a file. It can be a private key, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Content(Arc<[u8]>);

/// The number of a line in a file, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line(pub(crate) usize);

/// What is needed to read the files of some settings: the path of these settings, and the contents of all files.
pub(crate) struct Files<'f> {
    /// The path of these settings, for messages: `listeners[0].tls`.
    pub(crate) place: String,
    pub(crate) contents: &'f BTreeMap<String, Content>,
}

/// A problem with files that a resource names. Any of `files` can be the cause.
#[derive(Debug)]
pub(crate) struct FileProblem {
    pub(crate) problem: Problem,
    pub(crate) files: Vec<String>,
}

impl Content {
    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Content {
        Content(bytes.into())
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} bytes)", self.0.len())
    }
}

impl FileProblem {
    pub(crate) fn new<'n>(problem: Problem, files: impl IntoIterator<Item = &'n str>) -> Box<FileProblem> {
        Box::new(FileProblem { problem, files: files.into_iter().map(str::to_owned).collect() })
    }
}

impl Files<'_> {
    pub(crate) fn place(&self, field: &str) -> String {
        format!("{}.{field}", self.place)
    }

    pub(crate) fn content(&self, field: &str, file: &str) -> Result<&Content, Box<FileProblem>> {
        // Formats the place only for errors: there can be thousands of files.
        match self.contents.get(file) {
            Some(content) => Ok(content),
            None => content(self.contents, &self.place(field), file).map_err(|p| FileProblem::new(p, [file])),
        }
    }

    pub(crate) fn problem(&self, field: &str, file: &str, message: String, remedy: &str) -> Box<FileProblem> {
        FileProblem::new(Problem::of(self.place(field), message).help(remedy), [file])
    }
}

/// Converts a problem in a line of `file` to a problem of the field that names `file`. `place` is this field.
pub(crate) fn line_problem(problem: Problem<Line>, place: impl Into<String>, file: &str) -> Problem {
    let Problem { place: Line(line), message, remedy } = problem;
    Problem::of(place, format!("`{file}`, line {line}: {message}")).help(remedy)
}

/// Returns the content of `file`. `place` is the field that names `file`, for the error.
pub(crate) fn content<'f>(
    files: &'f BTreeMap<String, Content>,
    place: &str,
    file: &str,
) -> Result<&'f Content, Problem> {
    files.get(file).ok_or_else(|| {
        Problem::of(place, format!("the content of `{file}` is missing"))
            .help("pass the content of the file together with its name")
    })
}
