//! Problems of an input: the place, the message and the remedy.

use std::fmt;

/// A problem of an input, such as a configuration, a scenario or a command line.
///
/// The place is the path of a field by default, a [`Position`] in a text, or `()` where the caller adds it. `Display`
/// writes place and message; callers print the remedy on a line of its own.
///
/// ```
/// use weir_document::Problem;
///
/// let problem = Problem::of("routes[2].backend", "unknown backend `shp`").help("did you mean `shop`?");
/// assert_eq!(problem.to_string(), "routes[2].backend: unknown backend `shp`");
/// assert_eq!(problem, Problem::new("unknown backend `shp`", "did you mean `shop`?").at(problem.place.clone()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem<P = String> {
    /// Where it is.
    pub place: P,
    /// What is wrong.
    pub message: String,
    /// How to fix it; empty if unknown.
    pub remedy: String,
}

/// A position in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Name of the text, usually the path of a file.
    pub source_name: String,
    /// Line, from 1; 0 if unknown.
    pub line: u64,
    /// Column in characters, from 1; 0 if unknown.
    pub column: u64,
}

impl Problem<()> {
    /// A problem whose place is not known yet.
    pub fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { place: (), message: message.into(), remedy: remedy.into() }
    }
}

impl Problem {
    /// A problem of the field at `place`, without a remedy.
    pub fn of(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), remedy: String::new() }
    }
}

impl Problem<Position> {
    /// Moves the problem to another line and column of its text.
    #[must_use]
    pub fn moved_to(mut self, line: u64, column: u64) -> Self {
        self.place = Position { line, column, ..self.place };
        self
    }

    /// Replaces the name of the text.
    #[must_use]
    pub fn renamed(mut self, source_name: &str) -> Self {
        self.place.source_name = source_name.to_owned();
        self
    }

    /// Moves a problem of a document to the text that contains the document from line `first_line` on.
    #[must_use]
    pub fn in_stream(mut self, first_line: u64) -> Self {
        if self.place.line > 0 {
            self.place.line += first_line.saturating_sub(1);
        }
        self
    }
}

impl<P> Problem<P> {
    /// Sets the place.
    pub fn at<Q>(self, place: Q) -> Problem<Q> {
        Problem { place, message: self.message, remedy: self.remedy }
    }

    /// Sets the remedy.
    #[must_use]
    pub fn help(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

impl<P: fmt::Display> fmt::Display for Problem<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl<P: fmt::Debug + fmt::Display> std::error::Error for Problem<P> {}

impl Position {
    /// A line and column of the text, both from 1.
    pub fn new(source_name: &str, line: u64, column: u64) -> Self {
        Self { source_name: source_name.to_owned(), line, column }
    }

    /// The text as a whole.
    pub fn whole(source_name: &str) -> Self {
        Self::new(source_name, 0, 0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.source_name),
            line => write!(f, "{}:{line}:{}", self.source_name, self.column),
        }
    }
}
