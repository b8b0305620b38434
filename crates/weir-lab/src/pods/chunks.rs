//! Stores data in Secrets. A Secret holds at most 1 MiB, so larger data is split into several Secrets.

use std::collections::BTreeMap;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Site;

/// Maximum size of the data in one Secret, bytes. Kubernetes allows 1 MiB, and etcd 1.5 MiB for the whole object.
pub const CHUNK_BYTES: usize = 900 << 10;

/// The key of the data in a Secret.
const KEY: &str = "data";
/// The label with the index of a Secret, from 0: larger data is split into several Secrets.
const CHUNK_LABEL: &str = "weir/chunk";
/// The label with the number of Secrets into which the data is split.
const CHUNKS_LABEL: &str = "weir/chunks";
/// The label with the name of the data that a Secret belongs to.
pub(super) const DATA_LABEL: &str = "weir/data";

/// Splits `data` into Secrets. The name of each Secret contains `name`. The label `weir/data` of each Secret has the
/// value `name`.
pub fn chunked(site: &Site, name: &str, data: &[u8]) -> Vec<Value> {
    let chunks: Vec<&[u8]> = match data.is_empty() {
        true => vec![data],
        false => data.chunks(CHUNK_BYTES).collect(),
    };
    let of = chunks.len();
    let secret = |(number, chunk): (usize, &[u8])| {
        let mut metadata = site.metadata(&site.name(&format!("{name}-{number}")));
        metadata["labels"][DATA_LABEL] = json!(name);
        metadata["labels"][CHUNK_LABEL] = json!(number.to_string());
        metadata["labels"][CHUNKS_LABEL] = json!(of.to_string());
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "data": { KEY: STANDARD.encode(chunk) },
        })
    };
    chunks.into_iter().enumerate().map(secret).collect()
}

/// Joins the data of Secrets from [`chunked`]; `None` if a Secret is missing.
///
/// # Errors
/// If a Secret is malformed.
pub fn joined(secrets: &[Value]) -> Result<Option<Vec<u8>>, String> {
    let number = |secret: &Value, label: &str| -> Result<usize, String> {
        let text = secret["metadata"]["labels"][label].as_str().unwrap_or_default();
        text.parse().map_err(|_| format!("the label {label} is `{text}`, not a number"))
    };
    let mut chunks = BTreeMap::new();
    let mut of = 0;
    for secret in secrets {
        of = number(secret, CHUNKS_LABEL)?;
        let data = secret["data"][KEY].as_str().unwrap_or_default();
        let data = STANDARD.decode(data).map_err(|error| error.to_string())?;
        chunks.insert(number(secret, CHUNK_LABEL)?, data);
    }
    let is_whole = of > 0 && (0..of).all(|number| chunks.contains_key(&number));
    Ok(is_whole.then(|| chunks.into_values().flatten().collect()))
}

/// A volume that mounts the data `name`, which consists of `of` Secrets. Each Secret becomes a file whose name is the
/// index of the Secret.
pub(super) fn volume(site: &Site, volume: &str, name: &str, of: usize) -> Value {
    let source = |number: usize| {
        json!({ "secret": {
            "name": site.name(&format!("{name}-{number}")),
            "items": [{ "key": KEY, "path": format!("{number:04}") }],
        } })
    };
    json!({ "name": volume, "projected": { "sources": (0..of).map(source).collect::<Vec<_>>() } })
}

/// Files for a pod, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSet(BTreeMap<PathBuf, String>);

impl FileSet {
    /// All files below `folder`.
    ///
    /// # Errors
    /// If a file cannot be read, or is not text.
    pub fn below(folder: &Path) -> io::Result<Self> {
        let mut files = Self::default();
        files.add(folder)?;
        Ok(files)
    }

    /// Adds all files below `folder`.
    ///
    /// # Errors
    /// As [`FileSet::below`].
    pub fn add(&mut self, folder: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            match path.is_dir() {
                true => self.add(&path)?,
                false => {
                    let content = std::fs::read_to_string(&path)?;
                    self.0.insert(path, content);
                }
            }
        }
        Ok(())
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compresses the files into data for Secrets.
    pub fn packed(&self) -> Vec<u8> {
        let mut output = GzEncoder::new(Vec::new(), Compression::default());
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut output, &self.0);
        output.finish().unwrap_or_default()
    }

    /// Reads files from the folder `volume`, where Secrets with their packed data are mounted.
    ///
    /// # Errors
    /// If the data cannot be read, or does not come from [`FileSet::packed`].
    pub fn unpacked(volume: &Path) -> io::Result<Self> {
        let data = joined_files(volume)?;
        let mut text = String::new();
        GzDecoder::new(&data[..]).read_to_string(&mut text)?;
        Ok(Self(serde_json::from_str(&text)?))
    }

    /// Writes the files, readable only by their owner. All of them must be below `root`.
    ///
    /// # Errors
    /// If a file cannot be written, or is not below `root`.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        for (path, content) in &self.0 {
            let climbs = path.components().any(|part| part == Component::ParentDir);
            if climbs || !path.starts_with(root) {
                let message = format!("{} is not below {}", path.display(), root.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            std::fs::create_dir_all(path.parent().unwrap_or(root))?;
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
            file.write_all(content.as_bytes())?;
        }
        Ok(())
    }
}

/// Reads and joins data from `folder`, where the Secrets from [`chunked`] are mounted as files.
///
/// # Errors
/// If a file cannot be read.
pub fn joined_files(folder: &Path) -> io::Result<Vec<u8>> {
    let is_chunk = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut paths =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.retain(is_chunk);
    paths.sort();
    let mut data = Vec::new();
    for path in paths {
        data.extend(std::fs::read(path)?);
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            namespace: "n".into(),
            is_own: true,
            run: "20261126-1450-abcd".into(),
            image: "weir:1".into(),
            has_samplers: false,
        }
    }

    #[test]
    fn large_data_is_split_and_joined() {
        let data: Vec<u8> = (0..2 * CHUNK_BYTES + 1).map(|at| at as u8).collect();
        let mut secrets = chunked(&site(), "files", &data);
        assert_eq!(secrets.len(), 3);
        assert_eq!(secrets[2]["metadata"]["name"], "weir-20261126-1450-abcd-files-2");
        secrets.reverse();
        assert_eq!(joined(&secrets), Ok(Some(data)));
        assert_eq!(joined(&secrets[1..]), Ok(None), "the last chunk is missing");
        assert_eq!(joined(&[]), Ok(None));
        assert_eq!(joined(&chunked(&site(), "empty", &[])), Ok(Some(vec![])));
    }

    #[test]
    fn files_are_unpacked_at_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let (from, volume) = (folder.path().join("work"), folder.path().join("volume"));
        std::fs::create_dir_all(from.join("gateway/certificates")).unwrap();
        std::fs::create_dir_all(&volume).unwrap();
        std::fs::write(from.join("gateway/a.conf"), "a").unwrap();
        std::fs::write(from.join("gateway/certificates/b.pem"), "b").unwrap();
        let packed = FileSet::below(&from.join("gateway")).unwrap().packed();
        let (first, second) = packed.split_at(10);
        std::fs::write(volume.join("0001"), second).unwrap();
        std::fs::write(volume.join("0000"), first).unwrap();
        std::fs::remove_dir_all(&from).unwrap();
        FileSet::unpacked(&volume).unwrap().write(&from).unwrap();
        assert_eq!(std::fs::read_to_string(from.join("gateway/certificates/b.pem")).unwrap(), "b");
        let refused = FileSet::unpacked(&volume).unwrap().write(&folder.path().join("other")).unwrap_err();
        assert!(refused.to_string().contains("is not below"), "{refused}");
    }
}
