//! Removes the containers of a run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::ANSWER_TIMEOUT;
use crate::ask::ask;

/// The container label whose value names the run.
pub(crate) const RUN_LABEL: &str = "weir.run";

/// Timeout for the removal of all containers of a run.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(30);
const REMOVE_POLL: Duration = Duration::from_millis(50);

/// The environment variables that select the daemon to which a container engine's program connects.
const DAEMON_VARIABLES: [&str; 3] = ["DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST"];

/// A container engine's program (`docker` or `podman`), and the environment variables that select its daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Daemon {
    program: PathBuf,
    variables: Vec<(String, String)>,
}

impl Daemon {
    /// Saves the environment variables of this process that select the daemon of `program`.
    pub(super) fn of(program: &Path) -> Self {
        let set = DAEMON_VARIABLES
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
        Self { program: program.to_owned(), variables: set.collect() }
    }

    /// Removes all containers of the run `run`, even running ones; returns whether none is left.
    pub(crate) fn remove_containers(&self, run: &str) -> bool {
        let asked = |arguments: &[&str]| {
            let mut command = Command::new(&self.program);
            command.args(arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
            ask(command, ANSWER_TIMEOUT)
        };
        let label = format!("label={RUN_LABEL}={run}");
        // A busy container engine needs seconds for each request, so the deadline is long.
        let deadline = Instant::now() + REMOVE_TIMEOUT;
        loop {
            if let Ok(listed) = asked(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &label]) {
                let ids: Vec<&str> = listed.output.split_whitespace().collect();
                if ids.is_empty() && listed.status.success() {
                    return true;
                }
                if !ids.is_empty() {
                    let _ = asked(&[&["rm", "--force", "--volumes"], &ids[..]].concat());
                }
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(REMOVE_POLL);
        }
    }
}
