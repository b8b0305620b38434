//! Where a scenario's text comes from: a file, or one of those built in.

use std::path::Path;

use include_dir::{Dir, include_dir};
use weir_document::nearest;

use crate::LabError;

static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../scenarios");

/// The text of a scenario and the name by which errors call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A file's path as given, or a built-in scenario's name.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Source {
    /// The built-in scenario `wanted`, else the file of that path.
    ///
    /// # Errors
    /// When there is neither, or the file cannot be read.
    pub fn find(wanted: &str) -> Result<Self, LabError> {
        if let Some(text) = built_in(wanted) {
            return Ok(Self { name: wanted.to_owned(), text: text.to_owned() });
        }
        let path = Path::new(wanted);
        let read = std::fs::read(path).map_err(|error| unreadable(wanted, &error))?;
        let text = String::from_utf8(read).map_err(|_| LabError::NoScenario {
            message: format!("{wanted}: not a text in UTF-8"),
            remedy: "a scenario is a YAML or JSON file; `weir schema` describes it".into(),
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
        let remedy = format!("name a file that can be read, or a built-in scenario: {list}");
        return LabError::NoScenario { message: format!("{wanted}: {error}"), remedy };
    }
    let looks_like_a_file = wanted.contains(['/', '.']);
    let message = match looks_like_a_file {
        true => format!("{wanted}: there is no such file"),
        false => format!("no scenario `{wanted}`, built in or as a file"),
    };
    let remedy = match nearest(wanted, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? Built in are: {list}"),
        None => format!("built in are: {list}; or give the path of a file"),
    };
    LabError::NoScenario { message, remedy }
}
