//! Reads the manifests in a text. The text can contain several documents, and lists of manifests.

use serde::Deserialize;
use serde::de::IgnoredAny;
use weir_document::{Position, Problem, StreamPart, documents};

use crate::kind::Kind;
use crate::manifest::{Body, DEFAULT_NAMESPACE, Manifest};

/// A manifest, and where it is in the text.
#[derive(Debug)]
pub struct Read {
    /// The manifest; never a list.
    pub manifest: Manifest,
    /// The line where its document starts, from 1.
    pub first_line: u64,
    /// The path of the manifest within its document, such as `items[3]`; empty if it is the whole document.
    pub within: String,
}

/// The fields of a document that show whether it is a manifest.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "apiVersion", default)]
    api_version: Option<IgnoredAny>,
    #[serde(default)]
    kind: Option<IgnoredAny>,
}

/// The fields of a manifest that identify its resource.
#[derive(Deserialize)]
struct Title {
    kind: String,
    metadata: TitleMetadata,
}

#[derive(Deserialize)]
struct TitleMetadata {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

/// Whether the text begins with a manifest. If not, it may be a configuration in weir's compact form.
pub fn has_manifests(source_name: &str, text: &str) -> bool {
    // Without this quick check, a large file in the compact form would be parsed twice.
    let has_kind = || text.starts_with("kind:") || text.contains("\nkind:");
    if !text.contains("apiVersion") && !has_kind() {
        return false;
    }
    let first = parts(source_name, text).first().copied();
    let head = first.map(|part| weir_document::read::<Head>(source_name, part.text));
    head.is_some_and(|head| head.is_ok_and(|head| head.api_version.is_some() || head.kind.is_some()))
}

/// Reads all manifests of the text, and splits lists into their items. `source_name` is the file name for errors.
///
/// # Errors
/// One error for each document that is not a manifest, or that has an unknown kind or an unknown field.
pub fn read(source_name: &str, text: &str) -> Result<Vec<Read>, Vec<Problem<Position>>> {
    let (mut read, mut errors) = (Vec::new(), Vec::new());
    for part in parts(source_name, text) {
        match weir_document::read(source_name, part.text) {
            Ok(manifest) => flatten(manifest, part.first_line, String::new(), &mut read),
            Err(error) => errors.push(titled(source_name, part, error).in_stream(part.first_line)),
        }
    }
    if errors.is_empty() { Ok(read) } else { Err(errors) }
}

impl Read {
    /// Returns line and column of the field at `path`, such as `spec.rules[0].name`, in the text. If the field does not
    /// exist, returns the position of its nearest existing parent.
    pub fn place(&self, source_name: &str, text: &str, path: &str) -> Option<(u64, u64)> {
        let part = parts(source_name, text).into_iter().find(|part| part.first_line == self.first_line)?;
        let steps = [self.within.as_str(), path].into_iter().flat_map(|path| path.split(['.', '[', ']']));
        let steps: Vec<&str> = steps.filter(|step| !step.is_empty()).collect();
        let (line, column) = weir_document::place(part.text, &steps).unwrap_or((1, 1));
        Some((line + self.first_line - 1, column))
    }
}

fn parts<'t>(source_name: &str, text: &'t str) -> Vec<StreamPart<'t>> {
    match source_name.ends_with(".json") {
        true => vec![StreamPart { text, first_line: 1 }],
        false => documents(text),
    }
}

fn flatten(manifest: Manifest, first_line: u64, within: String, read: &mut Vec<Read>) {
    match manifest.body {
        Body::List(items) => {
            for (index, item) in items.into_iter().enumerate() {
                let dot = if within.is_empty() { "" } else { "." };
                flatten(item, first_line, format!("{within}{dot}items[{index}]"), read);
            }
        }
        _ => read.push(Read { manifest, first_line, within }),
    }
}

/// Adds the name of the resource to the error, if it can be read.
fn titled(source_name: &str, part: StreamPart<'_>, error: Problem<Position>) -> Problem<Position> {
    let Ok(Title { kind, metadata }) = weir_document::read(source_name, part.text) else { return error };
    let namespace = match (metadata.namespace, Kind::named(&kind)) {
        (_, Some(kind)) if kind.is_of_cluster() => String::new(),
        (Some(namespace), _) => format!("{namespace}/"),
        (None, Some(_)) => format!("{DEFAULT_NAMESPACE}/"),
        (None, None) => String::new(),
    };
    let message = format!("{kind} {namespace}{}: {}", metadata.name, error.message);
    // An error about the whole document is reported at its first character.
    let error = if error.place.line == 0 { error.moved_to(1, 1) } else { error };
    Problem { message, ..error }
}
