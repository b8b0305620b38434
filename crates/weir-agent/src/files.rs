//! Files that a load needs. The coordinator reads them, and agents store each under a name that contains its SHA-256.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use weir_engine::LoadSpec;

use crate::AgentError;

/// The contents of files, by their names on agents. A name is the SHA-256 of the content plus the extension of the
/// file. The extension selects the format of a request file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileMap(pub(crate) BTreeMap<String, Vec<u8>>);

/// Reads every file of `spec`, and replaces the file's path with the name of the file on agents.
///
/// # Errors
/// [`AgentError::File`] for the first file that cannot be read.
pub fn read_files(spec: &mut LoadSpec) -> Result<FileMap, AgentError> {
    let mut files = FileMap::default();
    spec.map_files(|path| {
        let content = fs::read(path).map_err(|source| AgentError::File { path: path.to_owned(), source })?;
        let name = name_of(&content, path);
        files.0.insert(name.clone(), content);
        Ok::<_, AgentError>(PathBuf::from(name))
    })?;
    Ok(files)
}

/// Replaces names of files in `spec` with their paths in `dir`. A name that is not in `sent` is an error, so that an
/// agent reads only files that the coordinator sent.
///
/// # Errors
/// The first name that is not in `sent`.
pub(crate) fn place_files(
    spec: &mut LoadSpec,
    dir: &Path,
    sent: &BTreeMap<String, u64>,
) -> Result<(), String> {
    spec.map_files(|name| match name.to_str().filter(|name| is_plain(name) && sent.contains_key(*name)) {
        Some(name) => Ok(dir.join(name)),
        None => {
            Err(format!("the load needs the file {}, which the coordinator did not send", name.display()))
        }
    })
}

/// Whether `name` contains the SHA-256 of `content`. False for a name that would leave its folder, such as `../x`.
pub(crate) fn is_name_of(name: &str, content: &[u8]) -> bool {
    is_plain(name) && name.split('.').next().is_some_and(|hash| hash == sha256(content))
}

/// Whether `name` is a plain file name, which cannot leave its folder.
fn is_plain(name: &str) -> bool {
    !name.contains(['/', '\0']) && ![".", ".."].contains(&name)
}

fn name_of(content: &[u8], path: &Path) -> String {
    let hash = sha256(content);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) => format!("{hash}.{extension}"),
        None => hash,
    }
}

fn sha256(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_engine::RequestSpec;

    #[test]
    fn files_are_named_by_hash_and_extension() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids.txt");
        fs::write(&path, "a\nb\n").unwrap();
        let request = RequestSpec { path: format!("/{{pick:{}}}", path.display()), ..RequestSpec::default() };
        let mut spec = LoadSpec { requests: vec![request], ..LoadSpec::default() };
        let files = read_files(&mut spec).unwrap();
        let (name, content) = files.0.first_key_value().unwrap();
        assert!(name.ends_with(".txt") && is_name_of(name, content) && !is_name_of(name, b"other"), "{name}");
        assert!(!is_name_of(&format!("../{name}"), content));
        assert_eq!(spec.requests[0].path, format!("/{{pick:{name}}}"));
        let mut other = spec.clone();
        let refused = place_files(&mut other, Path::new("/there"), &BTreeMap::new()).unwrap_err();
        assert!(refused.contains("did not send"), "{refused}");
        let sent = BTreeMap::from([(name.clone(), content.len() as u64)]);
        place_files(&mut spec, Path::new("/there"), &sent).unwrap();
        assert_eq!(spec.requests[0].path, format!("/{{pick:/there/{name}}}"));

        spec.requests[0].path = "/{pick:/no/such}".into();
        assert!(read_files(&mut spec).unwrap_err().to_string().starts_with("/no/such: "));
    }
}
