//! Sources of scenarios: files and built-in scenarios.

use std::path::Path;

use include_dir::{Dir, include_dir};
use weir_document::{Problem, nearest};

use crate::LabError;

static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../scenarios");

/// The text of a scenario, and its name in errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path of the file as given, or the name of the built-in scenario.
    pub name: String,
    /// The text of the scenario: YAML or JSON.
    pub text: String,
}

impl Source {
    /// The built-in scenario `wanted`, or the file with that path.
    ///
    /// # Errors
    /// If neither exists, or the file cannot be read.
    pub fn find(wanted: &str) -> Result<Self, LabError> {
        if let Some(text) = built_in(wanted) {
            return Ok(Self { name: wanted.to_owned(), text: text.to_owned() });
        }
        let path = Path::new(wanted);
        let read = std::fs::read(path).map_err(|error| unreadable(wanted, &error))?;
        let text = String::from_utf8(read).map_err(|_| {
            let remedy = "use a YAML or JSON file; `weir schema` prints the schema of scenarios";
            LabError::NoScenario(Problem::new(format!("{wanted}: the file is not UTF-8 text"), remedy))
        })?;
        Ok(Self { name: wanted.to_owned(), text })
    }
}

/// Names of the built-in scenarios, sorted.
pub fn built_in_names() -> Vec<&'static str> {
    let stem = |file: &'static include_dir::File<'static>| {
        let path = file.path();
        path.extension().is_some_and(|e| e == "yaml").then(|| path.file_stem()?.to_str()).flatten()
    };
    let mut names: Vec<_> = BUILT_IN.files().filter_map(stem).collect();
    names.sort_unstable();
    names
}

fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.get_file(format!("{name}.yaml"))?.contents_utf8()
}

fn unreadable(wanted: &str, error: &std::io::Error) -> LabError {
    let names = built_in_names();
    let list = names.join(", ");
    if error.kind() != std::io::ErrorKind::NotFound {
        let remedy = format!("use a readable file, or a built-in scenario: {list}");
        return LabError::NoScenario(Problem::new(
            format!("{wanted}: cannot read the file: {error}"),
            remedy,
        ));
    }
    let looks_like_a_file = wanted.contains(['/', '.']);
    let message = match looks_like_a_file {
        true => format!("{wanted}: no such file"),
        false => format!("unknown scenario `{wanted}`: it is neither built in nor a file"),
    };
    let remedy = match nearest(wanted, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? Built-in scenarios: {list}"),
        None => format!("use the path of a file, or a built-in scenario: {list}"),
    };
    LabError::NoScenario(Problem::new(message, remedy))
}
