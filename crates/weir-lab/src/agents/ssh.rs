//! Starts agents on other hosts over `ssh`, with the user's own SSH configuration (`docs/decisions/0026-ssh.md`).
//!
//! One `ssh` process per host copies the ticket to a temporary folder on the host. If the host lacks this version of
//! weir, the process also copies weir. The remote shell removes the folder when the agent exits. The agent does not use
//! the SSH connection: it connects to the run directly.

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

/// Timeout to query the version of weir on a host.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// Options of every `ssh` command: no password prompt, exit when the connection is lost, no forwarding, and no shared
/// master connection, because a master connection would outlive the run.
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

/// Why weir cannot start an agent on a host.
#[derive(Debug, thiserror::Error)]
pub enum SshError {
    /// `ssh` itself failed.
    #[error("ssh {host}: {message}")]
    Ssh {
        /// The host, as passed to `ssh`.
        host: String,
        /// What `ssh` printed last, or why it did not run.
        message: String,
    },
    /// The host lacks this version of weir and cannot run the weir of this host.
    #[error(
        "ssh {host}: weir {} is not installed there, and the local weir program ({here}) does not run on {there}",
        env!("CARGO_PKG_VERSION")
    )]
    Machine {
        /// The host, as passed to `ssh`.
        host: String,
        /// Kernel and machine of that host, as `uname -sm` prints them.
        there: String,
        /// Kernel and machine of this host.
        here: String,
    },
    /// A local file with the data to copy could not be read or written.
    #[error("{}: cannot read or write the file: {source}", .path.display())]
    File {
        /// The file that failed.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}

impl SshError {
    /// What the user can do about the error.
    pub fn remedy(&self) -> String {
        match self {
            Self::Ssh { host, .. } => {
                format!(
                    "make `ssh {host} true` work without a password, or start the agent yourself (agents:N)"
                )
            }
            Self::Machine { host, .. } => format!(
                "install weir {} on {host}, in a folder in the PATH of non-interactive shells",
                env!("CARGO_PKG_VERSION")
            ),
            Self::File { .. } => "check that the file is readable, and that the disk has free space".into(),
        }
    }
}

/// The SSH hosts of a run, and what their agents need to join it.
pub(super) struct Hosts<'a> {
    /// The hosts, as passed to `ssh`. A host that is listed twice gets two agents.
    pub(super) names: &'a [String],
    /// Name prefix of the local `ssh` processes and their files; unique among the crews of a run.
    pub(super) called: &'a str,
    pub(super) weir: &'a Binary,
    /// The address where the agents join the run.
    pub(super) join: Join,
    /// The local ticket file, which is copied to each host.
    pub(super) ticket: &'a Path,
}

/// Address and port where agents join the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Join {
    /// The address; `None` means the client address of the agent's SSH connection, which is an address of this host.
    pub(super) host: Option<std::net::IpAddr>,
    pub(super) port: u16,
}

impl Hosts<'_> {
    /// Starts an agent on each host, and returns the local `ssh` processes. When an `ssh` process exits, so does its
    /// agent.
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
            let join = |asked: thread::ScopedJoinHandle<'_, _>| {
                asked.join().expect("the thread that queries the host does not panic")
            };
            asked.into_iter().map(join).collect()
        })
    }

    /// Writes the file that becomes the standard input of `ssh`: the ticket, then weir if the host lacks it.
    fn payload(&self, dir: &Path, has_weir: bool) -> Result<Payload, SshError> {
        let content = if has_weir { "ticket" } else { "ticket-and-weir" };
        let path = dir.join(format!("{}.{content}.ssh", self.called));
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| SshError::File { path: path.to_owned(), source })
        };
        let ticket = read(self.ticket)?;
        let binary = if has_weir { Vec::new() } else { read(&self.weir.path)? };
        // Earlier agents of this run may have left the file, and `create_new` would fail.
        let _ = std::fs::remove_file(&path);
        // Only the user may read the file: anyone who can read the ticket can join the run.
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

/// The local file that becomes the standard input of the remote shell: the ticket, then weir if the host lacks it.
#[derive(Debug)]
struct Payload {
    path: PathBuf,
    ticket_bytes: usize,
    /// Length of the weir program in this payload; 0 if the remote host has weir.
    weir_bytes: usize,
}

impl Payload {
    /// Returns the command for the login shell of the remote user. The login shell can be any shell, so the command
    /// only starts `sh` with the script in single quotes. The script itself contains no single quotes, so every shell
    /// passes it to `sh` unchanged.
    fn script(&self, join: Join, name: &str) -> String {
        let Self { ticket_bytes, weir_bytes, .. } = self;
        // Copies the ticket byte by byte. A larger read could also consume the start of the weir program, which follows
        // the ticket.
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
            // The first word of SSH_CONNECTION is the client's address: this host, as the remote host sees it.
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
            // Waits at most 5 s until weir's guard process has removed its `.ledger` file. If the agent was killed, the
            // guard needs this file to remove the agent's control groups.
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

/// Names of the agents on `hosts`: the host name without the user, with a number if the name is already used.
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

/// Whether `host` has this version of weir. If not, `host` needs a copy of this program, so a different system or
/// machine type is an error.
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
    // Reads the lines from the end, because a shell can print a greeting first.
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

    /// Runs the script as on a remote host, with a fake `weir` that prints the ticket and its arguments. Returns the
    /// output, and the files that remain in the temporary folder.
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
