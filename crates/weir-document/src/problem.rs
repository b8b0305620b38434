//! Problems of an input, with place, message and remedy.

use std::fmt;

/// A problem in an input, such as a configuration, a scenario or a command line.
///
/// The place is the path of a field by default. It can also be a [`Position`] in a text, or `()` if the caller adds it
/// later. `Display` writes place and message; callers print the remedy on its own line.
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
    /// Where the problem is.
    pub place: P,
    /// What is wrong.
    pub message: String,
    /// How to fix the problem; empty if unknown.
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
    /// A problem whose place the caller adds later, with [`Problem::at`].
    pub fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { place: (), message: message.into(), remedy: remedy.into() }
    }
}

impl Problem {
    /// A problem of the field `place`, without a remedy.
    pub fn of(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), remedy: String::new() }
    }
}

impl Problem<Position> {
    /// Changes line and column of the problem.
    #[must_use]
    pub fn moved_to(mut self, line: u64, column: u64) -> Self {
        self.place = Position { line, column, ..self.place };
        self
    }

    /// Replaces the name of the text that contains the problem.
    #[must_use]
    pub fn renamed(mut self, source_name: &str) -> Self {
        self.place.source_name = source_name.to_owned();
        self
    }

    /// Converts the line in one document of a stream to the line in the whole text. The document starts at
    /// `first_line`.
    #[must_use]
    pub fn in_stream(mut self, first_line: u64) -> Self {
        if self.place.line > 0 {
            self.place.line += first_line.saturating_sub(1);
        }
        self
    }
}

impl<P> Problem<P> {
    /// Sets the place of the problem.
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
    /// A position in the text `source_name`; lines and columns are counted from 1.
    pub fn new(source_name: &str, line: u64, column: u64) -> Self {
        Self { source_name: source_name.to_owned(), line, column }
    }

    /// The position for problems of the text as a whole.
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
