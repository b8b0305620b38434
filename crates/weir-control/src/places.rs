//! Finds the file, line and field of each problem in a configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_document::{Position, Problem};
use weir_manifests::{Misfit, Read, Translation};

use crate::documents::{Documents, Form};
use crate::problem::{PROBLEMS_MAX, Place, PlacedProblem, SourceError, problems_max};

/// The file that each part of a configuration came from.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The requested file or directory.
    path: PathBuf,
    /// The file that defines each backend, by the backend's name. Excludes backends from manifests.
    backends: BTreeMap<String, PathBuf>,
    settings: Option<PathBuf>,
    /// The translation of the manifests.
    pub(crate) translation: Translation,
}

/// A manifest and its file.
#[derive(Clone, Copy)]
pub(crate) struct FromFile<'a> {
    pub(crate) file: &'a Path,
    pub(crate) read: &'a Read,
}

impl Places {
    /// An empty `Places` for the configuration at `path`.
    pub(crate) fn of(path: &Path) -> Places {
        Places { path: path.to_owned(), ..Places::default() }
    }

    /// The prefix that distinguishes listeners and routes of several files: the file name and a space.
    pub(crate) fn prefix(file: &Path) -> String {
        format!("{} ", file.file_name().unwrap_or_default().to_string_lossy())
    }

    /// All manifests with their files.
    pub(crate) fn manifests(documents: &Documents) -> Vec<FromFile<'_>> {
        let of_file = documents.all().map(|(file, form)| match form {
            Form::Manifests(manifests) => (file, manifests.as_slice()),
            Form::Compact(_) => (file, [].as_slice()),
        });
        of_file
            .flat_map(|(file, manifests)| manifests.iter().map(move |read| FromFile { file, read }))
            .collect()
    }

    /// Records that `file` defines the backend `backend`. If another file already defines it, returns that file.
    pub(crate) fn own(&mut self, backend: &str, file: &Path) -> Option<PathBuf> {
        self.backends.insert(backend.to_owned(), file.to_owned())
    }

    /// The file that defines the backend `backend` in the compact form.
    pub(crate) fn owner(&self, backend: &str) -> Option<&Path> {
        self.backends.get(backend).map(PathBuf::as_path)
    }

    /// Records that `file` contains gateway-wide settings. If another file already does, returns that file.
    pub(crate) fn own_settings(&mut self, file: &Path) -> Option<PathBuf> {
        self.settings.replace(file.to_owned())
    }

    /// Finds file and line of the first [`PROBLEMS_MAX`] problems.
    pub(crate) fn located(&self, documents: &Documents, problems: Vec<Problem>) -> Vec<PlacedProblem> {
        let manifests = Places::manifests(documents);
        let placed = |problem: Problem| {
            let place = self.place(documents, &manifests, &problem.place);
            problem.at(place).into()
        };
        first(&self.path, PROBLEMS_MAX, 0, problems, placed)
    }

    /// Finds file and line of the first [`PROBLEMS_MAX`] conflicts between manifests.
    pub(crate) fn located_misfits(
        &self,
        documents: &Documents,
        manifests: &[FromFile<'_>],
        misfits: Vec<Misfit>,
    ) -> SourceError {
        let placed = |misfit: Misfit| {
            let place = in_manifest(documents, manifests[misfit.manifest], &misfit.path);
            let other = misfit.other.map(|other| in_manifest(documents, manifests[other], "metadata.name"));
            let other = other.map_or(String::new(), |other| format!(", at {}", other.position()));
            Problem::new(format!("{}{other}", misfit.message), misfit.remedy).at(place).into()
        };
        SourceError::Problems(first(&self.path, PROBLEMS_MAX, 0, misfits, placed))
    }

    /// Converts `place`, the field that a problem names, to file, line and field.
    fn place(&self, documents: &Documents, manifests: &[FromFile<'_>], place: &str) -> Place {
        let all: Vec<_> = manifests.iter().map(|of| &of.read.manifest).collect();
        if let Some((manifest, path)) = self.translation.locate(&all, place) {
            return in_manifest(documents, manifests[manifest], &path);
        }
        let (file, field) = match documents.is_directory() {
            true => self.in_directory(documents, place),
            false => (self.path.as_path(), place),
        };
        let text = documents.text(file).unwrap_or_default();
        in_text(file, &text, field)
    }

    /// In a directory, finds the file that contains the field `place`, and the name of the field in this file. If a
    /// problem concerns no single file, returns the directory.
    fn in_directory<'p>(&'p self, documents: &'p Documents, place: &'p str) -> (&'p Path, &'p str) {
        let by_prefix = documents.all().find_map(|(file, _)| {
            let prefix = Places::prefix(file);
            let rest = place.strip_prefix(&prefix);
            let rest = rest.or_else(|| (place == prefix.trim_end()).then_some(""));
            rest.map(|rest| (file, rest))
        });
        let of_backend = || {
            let rest = place.strip_prefix("backends.")?;
            let is_own =
                |name: &str| rest.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with('.'));
            let (_, file) =
                self.backends.iter().filter(|(name, _)| is_own(name)).max_by_key(|(name, _)| name.len())?;
            Some((file.as_path(), place))
        };
        let of_settings = || {
            let is_list = place.starts_with("listeners") || place.starts_with("backends");
            self.settings.as_deref().filter(|_| !is_list).map(|file| (file, place))
        };
        by_prefix.or_else(of_backend).or_else(of_settings).unwrap_or((self.path.as_path(), place))
    }
}

/// Finds the line of the field `field` in `text`, the content of a file in the compact form.
fn in_text(file: &Path, text: &str, field: &str) -> Place {
    let line_and_column = weir_document::place_of_field(text, field);
    let field = Some(field.to_owned()).filter(|field| !field.is_empty());
    Place { file: file.display().to_string(), line_and_column, field }
}

fn in_manifest(documents: &Documents, FromFile { file, read }: FromFile<'_>, path: &str) -> Place {
    let text = documents.text(file);
    let name = file.display().to_string();
    let line_and_column = text.and_then(|text| read.place(&name, &text, path));
    let dot = if path.is_empty() { "" } else { ": " };
    let field = format!("{}{dot}{path}", read.manifest.title());
    Place { file: name, line_and_column, field: Some(field).filter(|field| !field.is_empty()) }
}

/// Finds the lines of the first problems in a file in weir's compact form. Invalid parts without an entry in `errors`
/// are only counted: `skipped` is their number.
pub(crate) fn located_in_text(
    file: &Path,
    text: &str,
    errors: Vec<Problem<Position>>,
    problems: Vec<Problem>,
    skipped: usize,
) -> Vec<PlacedProblem> {
    let errors = errors.into_iter().map(Fault::Document);
    let all: Vec<Fault> = errors.chain(problems.into_iter().map(Fault::Problem)).collect();
    let placed = |fault| match fault {
        Fault::Document(error) => error.into(),
        Fault::Problem(problem) => {
            let place = in_text(file, text, &problem.place);
            problem.at(place).into()
        }
    };
    first(file, problems_max(text), skipped, all, placed)
}

/// A syntax error, or an invalid value.
enum Fault {
    Document(Problem<Position>),
    Problem(Problem),
}

/// The first [`PROBLEMS_MAX`] syntax errors of the files at `path`.
pub(crate) fn located_documents(path: &Path, errors: Vec<Problem<Position>>) -> SourceError {
    SourceError::Problems(first(path, PROBLEMS_MAX, 0, errors, PlacedProblem::from))
}

/// Converts the first `most` problems of the configuration at `path`, and sorts them by file and line. If there are
/// more problems, adds a last entry with the number of the remaining ones.
fn first<P>(
    path: &Path,
    most: usize,
    skipped: usize,
    problems: Vec<P>,
    placed: impl Fn(P) -> PlacedProblem,
) -> Vec<PlacedProblem> {
    let more = problems.len().saturating_sub(most) + skipped;
    let mut first: Vec<PlacedProblem> = problems.into_iter().take(most).map(placed).collect();
    first.sort_by(|a, b| {
        let (a, b) = (&a.problem.place, &b.problem.place);
        (&a.file, a.line_and_column).cmp(&(&b.file, b.line_and_column))
    });
    if more > 0 {
        let plural = if more == 1 { "" } else { "s" };
        let message = format!("and {more} more problem{plural} like these");
        let place = Place::of_file(&path.display().to_string());
        first.push(Problem::new(message, "").at(place).into());
    }
    first
}
