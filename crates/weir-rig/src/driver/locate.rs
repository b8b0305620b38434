//! Finds the binary of a driver or service, and computes its hash.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::version::{REPORT_TIMEOUT, version, version_in};
use super::{BinaryFile, Driver};
use crate::RigError;
use crate::digest::Digest;
use crate::engine::{Engines, Image, ImageName};
use crate::host::is_executable;

/// Wrapper scripts contain a line with this prefix and the path of the real binary, relative to the script.
const WRAPPED: &str = "# binary: ";

/// If a binary reports no version, this many digits of its hash replace the version.
const HASH_SHOWN: usize = 12;

/// A binary that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binary {
    /// The file to start, on this host or in the image.
    pub path: PathBuf,
    /// The version that the binary reports; in a pod, the tag of the image.
    pub version: String,
    /// SHA-256 in hexadecimal digits: of the file, of the real binary if the file is a wrapper script, or of the image.
    /// Empty in a pod.
    pub sha256: String,
    /// The image that contains the binary; `None` for a file of this host.
    pub image: Option<Image>,
    /// The image of the pod in which the binary runs; `None` outside a cluster, and for weir itself.
    pub pod_image: Option<ImageName>,
}

impl Binary {
    /// The binary of this process, for parts that are weir itself.
    ///
    /// # Errors
    /// If the executable of this process cannot be read.
    pub fn own() -> Result<Self, RigError> {
        let path = std::env::current_exe().map_err(|error| RigError::file("weir's own executable", error))?;
        let sha256 = sha256(&path).map_err(|error| RigError::file(&path, error))?;
        Ok(Self { path, version: env!("CARGO_PKG_VERSION").into(), sha256, image: None, pod_image: None })
    }
}

impl Driver {
    /// Finds the binary: the file `binary` if given. Otherwise searches `target/peers/bin` above this executable or the
    /// working folder, then next to this executable, then PATH, then the folder that KUBEBUILDER_ASSETS names.
    ///
    /// # Errors
    /// [`RigError::BinaryMissing`]; its remedy describes how to get the binary.
    pub fn locate(&self, binary: Option<&Path>) -> Result<Binary, RigError> {
        let Some(file) = &self.file.binary else {
            return Err(self.wrong("the driver has no `binary`", "add `binary` to driver.yaml"));
        };
        Binary::find(&self.name, file, binary)
    }

    /// Like [`Driver::locate`], but the binary can also be in an image. If `image` is given, the binary is in this
    /// image, at the path `binary`. Otherwise `programs` decides whether the driver's image replaces a missing binary.
    ///
    /// # Errors
    /// [`RigError::BinaryMissing`] if the binary is not found; [`RigError::EngineMissing`] or [`RigError::Image`] if
    /// the image cannot be used.
    pub fn locate_with(
        &self,
        binary: Option<&Path>,
        image: Option<&ImageName>,
        programs: &Programs<'_>,
    ) -> Result<Binary, RigError> {
        let Some(file) = &self.file.binary else {
            return Err(self.wrong("the driver has no `binary`", "add `binary` to driver.yaml"));
        };
        programs.find(&self.name, file, binary, image)
    }
}

impl Binary {
    /// Finds the binary of the driver or service `part`; see [`Driver::locate`].
    pub(super) fn find(part: &str, file: &BinaryFile, binary: Option<&Path>) -> Result<Self, RigError> {
        let missing = |binary: String| {
            let get = match &file.image {
                Some(image) => {
                    format!("{}, or use the container image {image}: `weir run --images`", file.get)
                }
                None => file.get.clone(),
            };
            RigError::BinaryMissing { part: part.to_owned(), binary, get }
        };
        let path = match binary {
            Some(given) if is_executable(given) => given.to_owned(),
            Some(given) => return Err(missing(given.display().to_string())),
            None => places()
                .into_iter()
                .map(|folder| folder.join(&file.name))
                .find(|path| is_executable(path))
                .ok_or_else(|| missing(file.name.clone()))?,
        };
        let path = std::path::absolute(&path).map_err(|error| RigError::file(&path, error))?;
        let sha256 = sha256(&path).map_err(|error| RigError::file(&path, error))?;
        let version = match &file.version {
            Some(how) => {
                version(&path, how).map_err(|message| RigError::Launch { part: part.to_owned(), message })?
            }
            None => short(&sha256),
        };
        Ok(Self { path, version, sha256, image: None, pod_image: None })
    }
}

/// Where the programs of drivers and services come from.
pub struct Programs<'a> {
    /// Whether to use the image of a driver or service if its program is missing.
    pub images: bool,
    /// The container engine that runs images.
    pub engines: Engines,
    /// Called with a message before weir pulls an image, which can take minutes.
    pub before_pull: &'a dyn Fn(&str),
    /// The image of weir, if programs run in pods; `None` if they run on this host. In pods, each program comes from an
    /// image that the cluster pulls.
    pub pods: Option<ImageName>,
}

impl Default for Programs<'_> {
    fn default() -> Self {
        Self { images: false, engines: Engines::default(), before_pull: &|_| {}, pods: None }
    }
}

/// The program of weir's own gateway. Its image is in the same repository folder as weir's image.
const OWN_GATEWAY: &str = "weir-gateway";

impl Programs<'_> {
    /// Finds the binary of the driver or service `part`, at the path `binary` if given. In pods, the binary always
    /// comes from an image. Otherwise, it comes from `image` if given, and else from this host. If this host does not
    /// have it, it comes from the image that `file` names, provided that images are allowed and `binary` is not given.
    pub(super) fn find(
        &self,
        part: &str,
        file: &BinaryFile,
        binary: Option<&Path>,
        image: Option<&ImageName>,
    ) -> Result<Binary, RigError> {
        if let Some(weir) = &self.pods {
            return in_pod(part, file, binary, image, weir);
        }
        if let Some(image) = image {
            return self.in_image(part, file, binary, image);
        }
        match (Binary::find(part, file, binary), &file.image) {
            (Err(RigError::BinaryMissing { .. }), Some(image)) if self.images && binary.is_none() => {
                self.in_image(part, file, None, image)
            }
            (found, _) => found,
        }
    }

    fn in_image(
        &self,
        part: &str,
        file: &BinaryFile,
        binary: Option<&Path>,
        name: &ImageName,
    ) -> Result<Binary, RigError> {
        let engine = self.engines.engine(part)?;
        let image = engine.image(part, name, self.before_pull)?;
        let path = binary.map_or_else(|| PathBuf::from(&file.name), Path::to_owned);
        let program = path.display().to_string();
        let version = match &file.version {
            Some(how) => {
                let answer = engine.run_once(part, &image, &program, &how.args, REPORT_TIMEOUT)?;
                version_in(&answer, how).map_err(|why| RigError::Launch {
                    part: part.to_owned(),
                    message: format!("`{program}` in the image {name} does not report its version: {why}"),
                })?
            }
            None => short(&image.id),
        };
        Ok(Binary { path, version, sha256: image.id.clone(), image: Some(image), pod_image: None })
    }
}

/// The binary in the image of a pod. Its version is the tag of the image, because this host cannot run the image.
fn in_pod(
    part: &str,
    file: &BinaryFile,
    binary: Option<&Path>,
    image: Option<&ImageName>,
    weir: &ImageName,
) -> Result<Binary, RigError> {
    let own = || (file.name == OWN_GATEWAY).then(|| weir.beside("weir", OWN_GATEWAY)).flatten();
    let image = image.cloned().or_else(|| file.image.clone()).or_else(own).ok_or_else(|| {
        let binary = file.name.clone();
        RigError::BinaryMissing {
            part: part.to_owned(),
            binary,
            get: "name an image that contains the program: --set gateways.NAME.image=IMAGE".into(),
        }
    })?;
    Ok(Binary {
        path: binary.map_or_else(|| PathBuf::from(&file.name), Path::to_owned),
        version: image.tag().to_owned(),
        pod_image: Some(image),
        ..Binary::default()
    })
}

/// The text that replaces the version if the binary reports none.
fn short(sha256: &str) -> String {
    format!("SHA-256 {}", sha256.get(..HASH_SHOWN).unwrap_or(sha256))
}

/// The folders to search for binaries, in order.
fn places() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    let working = std::env::current_dir().ok();
    let above = [&own, &working].into_iter().flatten().flat_map(|path| path.ancestors());
    let mut places: Vec<PathBuf> = above.map(|folder| folder.join("target/peers/bin")).collect();
    // Test binaries are one folder below the programs that are built with them.
    let next_to_own = own.iter().flat_map(|path| path.ancestors().skip(1).take(2)).map(Path::to_owned);
    places.extend(next_to_own);
    places.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    // Kubebuilder's test environment has an API server and etcd in this folder.
    places.extend(std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from));
    places
}

/// The SHA-256 of the binary at `path`, cached until the file changes.
fn sha256(path: &Path) -> io::Result<String> {
    type Known = BTreeMap<(PathBuf, u64, i64, i64), String>;
    static KNOWN: Mutex<Known> = Mutex::new(Known::new());

    let path = wrapped(path)?;
    let file = fs::metadata(&path)?;
    let key = (path, file.len(), file.mtime(), file.mtime_nsec());
    if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(known.clone());
    }
    let mut digest = Digest::new();
    digest.read(File::open(&key.0)?)?;
    let hash = digest.hex();
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, hash.clone());
    Ok(hash)
}

/// If `path` is a wrapper script of `make peers`, the path of the real binary; otherwise `path` itself. Resolves links.
fn wrapped(path: &Path) -> io::Result<PathBuf> {
    let mut head = Vec::new();
    File::open(path)?.take(4096).read_to_end(&mut head)?;
    let text = String::from_utf8_lossy(&head);
    let line =
        text.starts_with("#!").then(|| text.lines().find_map(|line| line.strip_prefix(WRAPPED))).flatten();
    Ok(match (line, path.parent()) {
        (Some(relative), Some(folder)) => folder.join(relative.trim()).canonicalize()?,
        _ => path.canonicalize()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Drivers;

    #[test]
    fn a_missing_binary_says_how_to_get_it() {
        let drivers = Drivers::load(&[]).unwrap();
        let error = drivers.driver("nginx").unwrap().locate(Some(Path::new("/nowhere/nginx"))).unwrap_err();
        assert_eq!(error.cause(), "binary-missing");
        assert_eq!(error.to_string(), "nginx: program `/nowhere/nginx` not found");
        assert!(error.remedy().contains("make peers"), "{}", error.remedy());
    }

    #[test]
    fn this_process_has_a_binary() {
        let own = Binary::own().unwrap();
        assert_eq!(own.sha256.len(), 64);
        assert_eq!(own, Binary::own().unwrap());
    }
}
