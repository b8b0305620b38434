//! Container images: their names and digests, and running a program of an image.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Engine, complaint};
use crate::RigError;
use crate::ask::{Answer, ask};

/// Timeout of an image pull.
const PULL_TIMEOUT: Duration = Duration::from_secs(1800);
/// The exit codes of a container engine if the image does not contain the program, or the program cannot be executed.
const NO_PROGRAM: [i32; 2] = [126, 127];
/// The exit codes in [`NO_PROGRAM`] and also 125, which means an error of the container engine itself.
const FAILED: [i32; 3] = [125, 126, 127];

/// The name of a container image, such as `nginx:1.29` or `registry.example/team/nginx:1.29@sha256:..`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageName(String);

impl ImageName {
    /// The digest in the name, else the tag; `latest` if the name has neither.
    pub fn tag(&self) -> &str {
        if let Some((_, digest)) = self.0.split_once('@') {
            return digest;
        }
        let name = self.0.rsplit_once('/').map_or(&self.0[..], |(_, name)| name);
        name.split_once(':').map_or("latest", |(_, tag)| tag)
    }

    /// Replaces `own`, the last component of this name, by `other`: `team/weir:1` becomes `team/weir-gateway:1`. `None`
    /// if the last component is not `own`, or the name has a digest.
    pub fn beside(&self, own: &str, other: &str) -> Option<Self> {
        let (folder, name) =
            self.0.rsplit_once('/').map_or(("", &self.0[..]), |(folder, name)| (folder, name));
        let rest = name.strip_prefix(own).filter(|rest| rest.is_empty() || rest.starts_with(':'))?;
        let slash = if folder.is_empty() { "" } else { "/" };
        (!rest.contains('@')).then(|| Self(format!("{folder}{slash}{other}{rest}")))
    }
}

impl TryFrom<String> for ImageName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        let is_name = name.chars().all(is_plain) && name.starts_with(|c: char| c.is_ascii_alphanumeric());
        match is_name {
            true => Ok(Self(name)),
            // The name becomes an argument of `docker` or `podman`, so it must not look like an option.
            false => Err(format!("`{name}` is not the name of an image; use a form like nginx:1.29")),
        }
    }
}

impl From<ImageName> for String {
    fn from(name: ImageName) -> Self {
        name.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for ImageName {
    fn schema_name() -> Cow<'static, str> {
        "ImageName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The name of a container image, like `nginx:1.29`.",
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._/:@-]*$"
        })
    }
}

/// An image in the local store of a container engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub(crate) engine: Engine,
    pub(crate) name: ImageName,
    /// The image ID, a SHA-256 in hexadecimal digits. Containers use the ID, so all cells run the same image even if
    /// its tag moves during the run.
    pub(crate) id: String,
    /// The digest of the image in its registry (`sha256:..`); `None` if it was built or imported locally.
    pub(crate) digest: Option<String>,
}

impl Image {
    /// What the manifest and reports record about the image.
    pub fn facts(&self) -> weir_results::PartImage {
        weir_results::PartImage {
            name: self.name.to_string(),
            id: format!("sha256:{}", self.id),
            digest: self.digest.clone(),
            engine: self.engine.to_string(),
        }
    }

    /// The name by which the image was found.
    pub fn name(&self) -> &ImageName {
        &self.name
    }

    /// The container engine that stores the image.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The argument that identifies the image in commands of the container engine: the image ID.
    pub(crate) fn reference(&self) -> String {
        format!("sha256:{}", self.id)
    }
}

impl Engine {
    /// Finds the image `name` in the engine's local store. If it is missing, calls `before_pull` with a message, then
    /// pulls the image.
    ///
    /// # Errors
    /// [`RigError::Image`] if the image cannot be pulled.
    pub(crate) fn image(
        &self,
        part: &str,
        name: &ImageName,
        before_pull: &dyn Fn(&str),
    ) -> Result<Image, RigError> {
        if let Some(image) = self.known(name) {
            return Ok(image);
        }
        before_pull(&format!("{part}: pulling the image {name}"));
        let pulled = ask(self.command(&["pull", "--quiet", &name.0]), PULL_TIMEOUT);
        let failed = |why: &str| RigError::Image {
            part: part.into(),
            message: format!("cannot pull the image {name}: {why}"),
            remedy: format!(
                "check the name and the network, or load the image from a file (`{} load`)",
                self.kind.name()
            ),
        };
        match pulled {
            Err(error) => return Err(failed(&error.to_string())),
            Ok(answer) if !answer.status.success() => return Err(failed(complaint(&answer.errors))),
            Ok(_) => {}
        }
        self.known(name).ok_or_else(|| failed("the engine does not list the image after the pull"))
    }

    /// The image `name`, if it is in the engine's local store.
    fn known(&self, name: &ImageName) -> Option<Image> {
        let format = "{{.Id}} {{range .RepoDigests}}{{.}} {{end}}";
        let answer = self.ask(&["image", "inspect", "--format", format, &name.0]).ok()?;
        let mut words = answer.output.split_whitespace();
        let id = words.next().filter(|_| answer.status.success())?;
        let id = id.strip_prefix("sha256:").unwrap_or(id).to_owned();
        // An image can have one digest per registry. Each digest identifies the image, so take the first. Podman also
        // lists digests for local images, under `localhost/`.
        let mut digests =
            words.filter(|word| !word.starts_with("localhost/")).filter_map(|word| word.split_once('@'));
        let digest = digests.next().map(|(_, digest)| digest.to_owned());
        Some(Image { engine: self.clone(), name: name.clone(), id, digest })
    }

    /// Runs `program` in a new container until it exits.
    ///
    /// # Errors
    /// [`RigError::Image`] if the image does not contain `program`, or `program` does not exit within `timeout`.
    pub(crate) fn run_once(
        &self,
        part: &str,
        image: &Image,
        program: &str,
        arguments: &[String],
        timeout: Duration,
    ) -> Result<Answer, RigError> {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let name = format!("weir-version-{}-{}", std::process::id(), ASKED.fetch_add(1, Ordering::Relaxed));
        let reference = image.reference();
        let limits = open_files();
        let mut all = vec!["run", "--rm", "--name", &name, "--network", "none", "--entrypoint", program];
        all.extend(limits.iter().map(String::as_str));
        all.push(&reference);
        all.extend(arguments.iter().map(String::as_str));
        let answer = ask(self.command(&all), timeout);
        if !answer.as_ref().is_ok_and(|answer| answer.status.success()) {
            let _ = self.ask(&["rm", "--force", &name]);
        }
        let answer = answer.map_err(|error| RigError::Image {
            part: part.into(),
            message: format!("`{program}` in the image {} does not report its version: {error}", image.name),
            remedy: "use another image".into(),
        })?;
        let is_missing =
            ["not found", "no such file"].iter().any(|words| answer.errors.to_lowercase().contains(words));
        let message = match answer.status.code() {
            Some(code) if NO_PROGRAM.contains(&code) && is_missing => {
                format!("the image {} does not contain the program `{program}`", image.name)
            }
            Some(code) if FAILED.contains(&code) => {
                format!("cannot run `{program}` of the image {}: {}", image.name, complaint(&answer.errors))
            }
            _ => return Ok(answer),
        };
        let remedy = "use another image, or set `binary` to the path of the program in the image".into();
        Err(RigError::Image { part: part.into(), message, remedy })
    }
}

/// The engine option that gives a container the open-files limit of this process. The limit determines how many
/// connections a gateway can have. The engine's own default can be higher than this host allows.
pub(crate) fn open_files() -> Vec<String> {
    let limit = getrlimit(Resource::Nofile).maximum;
    limit.into_iter().flat_map(|limit| ["--ulimit".to_owned(), format!("nofile={limit}:{limit}")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_names_cannot_be_options_or_commands() {
        let check = |name: &str, is_name: bool| {
            assert_eq!(ImageName::try_from(name.to_owned()).is_ok(), is_name, "{name}");
        };
        check("nginx:1.29", true);
        check("registry.example:5000/team/nginx:1.29@sha256:0123abcd", true);
        check("", false);
        check("--privileged", false);
        check("nginx 1.29", false);
        check("nginx;ls", false);
    }
}
