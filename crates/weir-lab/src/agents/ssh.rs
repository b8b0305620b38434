//! Agents on hosts that `ssh` reaches with the user's own configuration (`docs/decisions/0026-ssh.md`).
//!
//! One `ssh` process per host copies the ticket to a temporary folder, and weir itself if the host lacks this version.
//! The remote shell removes the folder when the agent exits. The agent connects to the run by itself.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use weir_results::Role;
use weir_rig::{Binary, ProcessSpec, Rig, Running, ask};

use super::CrewError;

/// Timeout to query the version on a host.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// Options of every `ssh`: no password prompt, exit on connection loss, no forwarding, and no master connection, which
/// would outlive the run.
const OPTIONS: [&str; 15] = [
    "-T",
    "-a",
    "-x",
    "-o",
    "RemoteCommand=none",
    "-o",
    "ClearAllForwardings=yes",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ControlMaster=no",
    "-o",
    "ServerAliveInterval=5",
];

/// Why no agent can run on a host.
#[derive(Debug, thiserror::Error)]
pub enum SshError {
    /// `ssh` itself failed.
    #[error("ssh {host}: {message}")]
    Ssh {
        /// The host, as `ssh` gets it.
        host: String,
        /// The error of `ssh`.
        message: String,
    },
    /// weir cannot be copied there.
    #[error(
        "ssh {host}: weir {} is not installed there, and the program of this host ({here}) does not run on {there}",
        env!("CARGO_PKG_VERSION")
    )]
    Machine {
        /// The host.
        host: String,
        /// Kernel and machine there, as `uname -sm` prints them.
        there: String,
        /// The same here.
        here: String,
    },
    /// The data for the host could not be prepared.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl SshError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            Self::Ssh { host, .. } => {
                format!(
                    "make `ssh {host} true` work without a password, or start the agent yourself (agents:N)"
                )
            }
            Self::Machine { host, .. } => format!(
                "install weir {} on {host}, in a folder of its PATH for non-interactive shells",
                env!("CARGO_PKG_VERSION")
            ),
            Self::File { .. } => "check that the file is readable, and that the disk has free space".into(),
        }
    }
}

/// The run that agents on SSH hosts join.
pub(super) struct Hosts<'a> {
    /// The hosts, as arguments of `ssh`. A host that is listed twice gets two agents.
    pub(super) names: &'a [String],
    /// The name prefix of the agents, which makes local files and processes unique.
    pub(super) called: &'a str,
    pub(super) weir: &'a Binary,
    /// The address where agents join. If it is unspecified, each host uses the address of its SSH client.
    pub(super) join: Join,
    /// The ticket.
    pub(super) ticket: &'a Path,
}

/// Where agents join.
#[derive(Clone, Copy, Debug)]
pub(super) struct Join {
    /// The address; `None` is the one from which `ssh` reaches the host.
    pub(super) host: Option<std::net::IpAddr>,
    pub(super) port: u16,
}

impl Hosts<'_> {
    /// Starts an agent on each host, and returns the `ssh` processes. An agent exits with its `ssh` process.
    pub(super) fn launch(&self, rig: &Rig) -> Result<Vec<Running>, CrewError> {
        let have_weir = self.look()?;
        let names = agent_names(self.names);
        let mut carriers = Vec::new();
        let mut payloads = BTreeMap::new();
        for ((host, name), has_weir) in self.names.iter().zip(&names).zip(have_weir) {
            let payload = match payloads.entry(has_weir) {
                Entry::Occupied(made) => made.into_mut(),
                Entry::Vacant(place) => place.insert(self.payload(rig.work_dir(), has_weir)?),
            };
            carriers.push(rig.launch(&self.process(rig.work_dir(), host, name, payload))?);
        }
        Ok(carriers)
    }

    /// Whether each host has this version of weir; queries all hosts concurrently.
    fn look(&self) -> Result<Vec<bool>, SshError> {
        thread::scope(|scope| {
            let asked: Vec<_> = self.names.iter().map(|host| scope.spawn(move || has_weir(host))).collect();
            let join =
                |asked: thread::ScopedJoinHandle<'_, _>| asked.join().expect("asking a host does not panic");
            asked.into_iter().map(join).collect()
        })
    }

    /// The file for a host: the ticket, and weir if the host lacks it.
    fn payload(&self, dir: &Path, has_weir: bool) -> Result<Payload, SshError> {
        let content = if has_weir { "ticket" } else { "ticket-and-weir" };
        let path = dir.join(format!("{}.{content}.ssh", self.called));
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| SshError::File { path: path.to_owned(), source })
        };
        let ticket = read(self.ticket)?;
        let binary = if has_weir { Vec::new() } else { read(&self.weir.path)? };
        // Removes the file of earlier agents.
        let _ = std::fs::remove_file(&path);
        // Everyone who can read the ticket can join.
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = written.and_then(|mut file| {
            file.write_all(&ticket)?;
            file.write_all(&binary)
        });
        written.map_err(|source| SshError::File { path: path.clone(), source })?;
        Ok(Payload { ticket_bytes: ticket.len(), weir_bytes: binary.len(), path })
    }

    fn process(&self, dir: &Path, host: &str, name: &str, payload: &Payload) -> ProcessSpec {
        let command = std::iter::once("ssh").chain(OPTIONS).map(str::to_owned);
        let command = command.chain(["--".into(), host.to_owned(), payload.script(self.join, name)]);
        let name = format!("{}-{name}", self.called);
        ProcessSpec {
            dir: dir.to_path_buf(),
            log: dir.join(format!("{name}.log")),
            input: Some(payload.path.clone()),
            ..ProcessSpec::plain(name, Role::Generator, self.weir.clone(), command.collect())
        }
    }
}

/// The standard input of the remote shell.
#[derive(Debug)]
struct Payload {
    path: PathBuf,
    ticket_bytes: usize,
    /// Length of the program; 0 if the host has weir.
    weir_bytes: usize,
}

impl Payload {
    /// The command for the remote shell, which can be any shell: `sh` runs the script, which contains no quotes that
    /// another shell would parse differently.
    fn script(&self, join: Join, name: &str) -> String {
        let Self { ticket_bytes, weir_bytes, .. } = self;
        // A program that reads ahead would consume the first bytes of weir.
        let ticket = format!("dd bs=1 count={ticket_bytes} of=\"$dir/ticket\" 2>/dev/null");
        let (copy, program) = match weir_bytes {
            0 => ("cat >/dev/null".to_owned(), "weir"),
            bytes => {
                let copied = "cat >\"$dir/weir\"; chmod 700 \"$dir/weir\"";
                (format!("{copied}; test $(wc -c <\"$dir/weir\") -eq {bytes} || exit 3"), "\"$dir/weir\"")
            }
        };
        let address = match join.host {
            Some(host) => format!("address={}", std::net::SocketAddr::new(host, join.port)),
            // The first word is the address of this side, as the host sees it.
            None => format!(
                "set -- $SSH_CONNECTION; address=$1; case $1 in *:*) address=[$1];; esac; address=$address:{}",
                join.port
            ),
        };
        let agent = format!(
            "TMPDIR=\"$dir\" WEIR_STATE_DIR=\"$dir/state\" {program} agent --join $address --ticket \"$dir/ticket\" \
             --name {name} </dev/null"
        );
        let steps = [
            "umask 077".to_owned(),
            "dir=$(mktemp -d) || exit 3".to_owned(),
            // weir's guard needs the ledger in this folder to remove the control groups of a killed agent.
            "clean() { n=0; while test $n -lt 5 && ls \"$dir\"/state/*.ledger >/dev/null 2>&1; do sleep 1; \
             n=$((n+1)); done; rm -rf \"$dir\"; }"
                .to_owned(),
            "trap clean EXIT".to_owned(),
            "trap \"exit 4\" HUP INT TERM".to_owned(),
            ticket,
            copy,
            address,
            agent,
        ];
        format!("exec sh -c '{}'", steps.join("; "))
    }
}

/// Names of the agents on `hosts`: host names without the user, numbered if a host is listed twice.
fn agent_names(hosts: &[String]) -> Vec<String> {
    let plain = |host: &String| {
        let host = host.rsplit_once('@').map_or(&host[..], |(_, host)| host);
        host.replace(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c), "-")
    };
    let mut names: Vec<String> = Vec::new();
    for host in hosts.iter().map(plain) {
        let host = Some(host.trim_matches('-')).filter(|host| !host.is_empty()).unwrap_or("host");
        let numbered = (2..).map(|number| format!("{host}-{number}"));
        let mut free = std::iter::once(host.to_owned()).chain(numbered).filter(|name| !names.contains(name));
        names.extend(free.next());
    }
    names
}

/// Whether `host` has this version of weir. Otherwise it must be able to run the program of this host.
fn has_weir(host: &str) -> Result<bool, SshError> {
    let failed = |message: String| SshError::Ssh { host: host.to_owned(), message };
    let mut command = Command::new("ssh");
    command.args(OPTIONS).args(["--", host, "exec sh -c 'uname -sm; weir --version 2>/dev/null; true'"]);
    let answer = ask(command, LOOK_MAX).map_err(|error| failed(error.to_string()))?;
    if !answer.status.success() {
        let said = answer.errors.trim();
        let said = said.lines().last().filter(|said| !said.is_empty()).map(str::to_owned);
        return Err(failed(said.unwrap_or_else(|| answer.status.to_string())));
    }
    // A shell can print a greeting before.
    let mut lines = answer.output.lines().map(str::trim).rev();
    let last = lines.next().unwrap_or_default();
    let version = last.strip_prefix("weir ").and_then(|rest| rest.split_whitespace().next());
    if version == Some(env!("CARGO_PKG_VERSION")) {
        return Ok(true);
    }
    let there = if version.is_some() { lines.next().unwrap_or_default() } else { last };
    let own = rustix::system::uname();
    let here = format!("{} {}", own.sysname().to_string_lossy(), own.machine().to_string_lossy());
    match there == here {
        true => Ok(false),
        false => Err(SshError::Machine { host: host.to_owned(), there: there.to_owned(), here }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_named_after_their_hosts() {
        let hosts = ["a", "me@b.example", "a", "[::1]", "a"].map(str::to_owned);
        assert_eq!(agent_names(&hosts), ["a", "b.example", "a-2", "1", "a-3"]);
        assert_eq!(agent_names(&["a-2", "a", "a"].map(str::to_owned)), ["a-2", "a", "a-3"]);
    }

    /// Runs the script like the shell of a host, with a `weir` that prints its arguments.
    fn shell(payload: &Payload, input: &[u8], join: Join) -> (String, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let (bin, temporary) = (folder.path().join("bin"), folder.path().join("temporary"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&temporary).unwrap();
        let weir = bin.join("weir");
        std::fs::write(&weir, "#!/bin/sh\ncat \"$5\"; echo \" $*\"\n").unwrap();
        std::fs::set_permissions(&weir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let given = folder.path().join("given");
        std::fs::write(&given, input).unwrap();
        let output = Command::new("sh")
            .args(["-c", &payload.script(join, "name")])
            .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
            .env("TMPDIR", &temporary)
            .env("SSH_CONNECTION", "fd00::1 40000 fd00::2 22")
            .stdin(std::fs::File::open(&given).unwrap())
            .output()
            .unwrap();
        let left = std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
        (String::from_utf8(output.stdout).unwrap(), left)
    }

    #[test]
    fn the_ticket_is_copied_and_removed_at_the_end() {
        let payload = Payload { path: PathBuf::new(), ticket_bytes: 6, weir_bytes: 0 };
        let (said, left) = shell(&payload, b"ticket", Join { host: None, port: 7400 });
        assert!(said.starts_with("ticket agent --join [fd00::1]:7400 --ticket "), "{said}");
        assert!(said.ends_with("/ticket --name name\n") && left.is_empty(), "{said} {left:?}");
    }

    #[test]
    fn weir_is_copied_completely_or_the_agent_does_not_start() {
        let weir = b"#!/bin/sh\necho \"copied $3\"\n";
        let input = [&b"ticket"[..], weir].concat();
        let payload = Payload { path: PathBuf::new(), ticket_bytes: 6, weir_bytes: weir.len() };
        let join = Join { host: Some([10, 0, 0, 1].into()), port: 7 };
        assert_eq!(shell(&payload, &input, join), ("copied 10.0.0.1:7\n".into(), vec![]));
        assert_eq!(shell(&payload, &input[..20], join), (String::new(), vec![]), "half of it");
    }
}
