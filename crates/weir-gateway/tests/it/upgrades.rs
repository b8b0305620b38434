//! Upgrades and changes of `workers` under load: clients connect for each request.

use std::fs::Permissions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::operations::program;
use crate::process::{Gateway, ask, config, connect, origin};

/// Number of upgrades and of reloads, unless `WEIR_UPGRADES` is set.
const UPGRADES: usize = 3;

const CLIENTS: usize = 4;

/// Minimum number of exchanges between two changes. It ensures that each change happens under load.
const EXCHANGES_BETWEEN: u64 = 500;

/// Results of the requests of all clients.
#[derive(Debug, Default)]
struct Outcomes {
    answered: AtomicU64,
    refused: AtomicU64,
    reset: AtomicU64,
    otherwise: AtomicU64,
}

/// Clients that open a new connection for each request until they are stopped.
struct Load {
    outcomes: Arc<Outcomes>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Outcomes {
    fn count(&self, of: &AtomicU64) -> u64 {
        of.load(Ordering::SeqCst)
    }

    /// The numbers of answered, refused, reset and otherwise failed requests.
    fn all(&self) -> [u64; 4] {
        [&self.answered, &self.refused, &self.reset, &self.otherwise].map(|of| self.count(of))
    }

    /// Sends one request over a new connection, and reads until it closes.
    fn exchange(&self, address: SocketAddr) {
        let outcome = match exchange(address) {
            Ok(answer) if answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok") => {
                &self.answered
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => &self.refused,
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                &self.reset
            }
            // Truncated responses, error responses and timeouts.
            _ => &self.otherwise,
        };
        outcome.fetch_add(1, Ordering::SeqCst);
    }
}

fn exchange(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

impl Load {
    fn start(address: SocketAddr) -> Load {
        let (outcomes, stop) = (Arc::new(Outcomes::default()), Arc::new(AtomicBool::new(false)));
        let client = |_| {
            let (outcomes, stop) = (Arc::clone(&outcomes), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    outcomes.exchange(address);
                }
            })
        };
        let clients = (0..CLIENTS).map(client).collect();
        Load { outcomes, stop, clients }
    }

    /// Waits for `exchanges` more responses, or until a request fails.
    fn wait_for_exchanges(&self, exchanges: u64) {
        let until = self.outcomes.count(&self.outcomes.answered) + exchanges;
        loop {
            let [answered, refused, reset, otherwise] = self.outcomes.all();
            if answered >= until || refused + reset + otherwise > 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the clients. Returns the numbers of answered, refused, reset and otherwise failed requests.
    fn end(self) -> [u64; 4] {
        self.stop.store(true, Ordering::SeqCst);
        self.clients.into_iter().for_each(|client| client.join().expect("no client panics"));
        self.outcomes.all()
    }
}

impl Gateway {
    /// Upgrades the gateway, and waits until the new process serves. Both processes write whole lines to the same pipe.
    pub(crate) fn upgrade(&mut self) {
        self.signal(Signal::USR2);
        let mut next = None;
        let mut is_ready = false;
        while next.is_none() || !is_ready {
            let line = self.line("");
            assert!(!line.is_empty(), "no process is left");
            is_ready |= line == "ready";
            next = next.or_else(|| line.strip_prefix("sockets handed over to process ")?.parse().ok());
        }
        self.process = next.and_then(Pid::from_raw).expect("a pid");
    }
}

impl Gateway {
    /// Starts another process with the same file and this runtime directory. Returns its exit status.
    fn run_beside(&self, folder: &Path) -> ExitStatus {
        let mut command = program();
        command.arg("--config").arg(self.dir.path().join("gateway.yaml")).arg("--runtime-dir").arg(folder);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it starts")
    }
}

/// A gateway that can be upgraded.
fn start(text: &str) -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = program();
    command.arg("--runtime-dir").arg(folder.path());
    (Gateway::spawn(text, command), folder)
}

#[test]
fn upgrades_and_reloads_lose_no_client() {
    let turns = std::env::var("WEIR_UPGRADES").map_or(UPGRADES, |turns| turns.parse().expect("a number"));
    let (origin, asked) = origin();
    let logs = tempfile::tempdir().expect("a temporary folder");
    let file = logs.path().join("access.log");
    let text = format!("{}access_log: {{ file: '{}', format: $status }}\n", config(origin), file.display());
    let (mut gateway, _folder) = start(&text);
    let load = Load::start(gateway.address);
    for turn in 0..turns {
        let workers = [1, 4, 3, 2][turn % 4];
        gateway.configure(&text.replace("workers: 2", &format!("workers: {workers}")));
        gateway.reload();
        load.wait_for_exchanges(EXCHANGES_BETWEEN);
        gateway.upgrade();
        load.wait_for_exchanges(EXCHANGES_BETWEEN);
    }
    let [answered, refused, reset, otherwise] = load.end();
    println!(
        "{turns} upgrades and {turns} reloads that change `workers`: {answered} answered, {refused} refused, \
         {reset} reset, {otherwise} failed otherwise"
    );
    assert_eq!([refused, reset, otherwise], [0; 3]);
    assert!(answered >= 2 * turns as u64 * EXCHANGES_BETWEEN);
    assert_eq!(asked.load(Ordering::SeqCst), answered, "each request was sent upstream once");
    gateway.signal(Signal::TERM);
    let (status, messages) = gateway.finish();
    let log = std::fs::read_to_string(file).expect("a log");
    assert!(log.lines().all(|status| status == "200"), "no line is mixed up between processes");
    assert_eq!(log.lines().count() as u64, answered, "each request has a line");
    assert_eq!((status.code(), messages.as_str()), (Some(0), ""));
}

#[test]
fn a_new_process_that_fails_changes_nothing() {
    let text = config(origin().0);
    let (mut gateway, _folder) = start(&text);
    gateway.configure("nonsense");
    gateway.signal(Signal::USR2);
    let mut messages = String::new();
    while !messages.ends_with("this process keeps serving\n") {
        messages += &gateway.message();
    }
    assert!(messages.contains("the new process exited before it was ready (exit status: 2)"), "{messages}");
    assert!(ask(&mut connect(gateway.address)).is_some());
    assert!(gateway.admin("/readyz").starts_with("HTTP/1.1 200 "));
    gateway.configure(&text);
    gateway.upgrade();
    // A worker of the old process stops a moment after the upgrade. Until then, it may accept a connection.
    gateway.wait_for("the new process", |g| ask(&mut connect(g.address)).is_some() && g.stat("requests") > 0);
    assert_eq!(gateway.stop(), "");
}

/// The only child of a process.
fn child_of(process: Pid) -> Pid {
    let process = process.as_raw_nonzero();
    let children =
        std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).expect("it runs");
    children.trim().parse().ok().and_then(Pid::from_raw).unwrap_or_else(|| panic!("one child: {children:?}"))
}

#[test]
fn pid_1_of_a_container_is_not_upgraded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--pid", "--fork", "--kill-child", env!("CARGO_BIN_EXE_weir-gateway"), "--runtime-dir"]);
    command.arg(folder.path());
    let mut gateway = Gateway::spawn(&config(origin().0), command);
    gateway.process = child_of(gateway.process);
    gateway.signal(Signal::USR2);
    let message = gateway.message();
    assert!(message.contains("this process is PID 1 of its container"), "{message}");
    assert!(message.contains("this process keeps serving"), "{message}");
    let after = gateway.run_beside(folder.path());
    assert!(!after.success(), "a process that is started by hand fails too");
    assert!(ask(&mut connect(gateway.address)).is_some());
    gateway.signal(Signal::QUIT);
    let (status, messages) = gateway.finish();
    assert_eq!(status.code(), Some(0), "drained by SIGQUIT, as nginx would: {messages}");
}

#[test]
fn a_new_process_that_hangs_is_stopped() {
    let text = config(origin().0);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("gateway");
    // The upgrade starts the program at this path.
    let put = |make: &dyn Fn(&std::path::Path)| {
        let beside = folder.path().join("beside");
        make(&beside);
        std::fs::rename(beside, &path).expect("a file in its place");
    };
    let put_gateway =
        || put(&|file| symlink(env!("CARGO_BIN_EXE_weir-gateway"), file).expect("a link to the program"));
    put_gateway();
    let mut command = std::process::Command::new(&path);
    command.arg("--runtime-dir").arg(folder.path()).args(["--upgrade-timeout", "5s"]);
    let mut gateway = Gateway::spawn(&text, command);
    put(&|file| {
        std::fs::write(file, "#!/bin/sh\nexec sleep 3600\n").expect("a script");
        std::fs::set_permissions(file, Permissions::from_mode(0o755)).expect("a program");
    });
    gateway.signal(Signal::USR2);
    for expected in [
        "stopping the new process: it was not ready within 5s (`--upgrade-timeout`)\n",
        "the new process exited before it was ready (signal: 9 (SIGKILL)); this process keeps serving\n",
    ] {
        let message = gateway.message();
        assert!(message.contains(" error ") && message.ends_with(expected), "{message}");
    }
    assert!(ask(&mut connect(gateway.address)).is_some());
    put_gateway();
    gateway.upgrade();
    assert_eq!(gateway.stop(), "");
}

#[test]
fn an_upgrade_timeout_of_zero_is_rejected() {
    let (code, messages) = crate::process::run(&config(origin().0), &["--upgrade-timeout", "0s"]);
    assert_eq!(code, Some(2));
    assert!(messages.contains("must be greater than 0"), "{messages}");
}

/// The second process adds a listener, and the third removes it.
#[test]
fn a_process_with_the_same_runtime_directory_takes_over() {
    let (origin, _) = origin();
    let (first, folder) = start(&config(origin));
    let mut kept = connect(first.address);
    assert!(ask(&mut kept).is_some());
    let beside = |text: &str| {
        let mut command = program();
        command.arg("--runtime-dir").arg(folder.path());
        Gateway::spawn(text, command)
    };
    let one = "{ address: 127.0.0.1:0 }";
    let second = beside(&config(origin).replace(one, &format!("{one}, {one}")));
    assert_eq!(second.address, first.address, "the socket is the same");
    let last = ask(&mut kept).is_none_or(|head| head.contains("Connection: close"));
    assert!(last, "the old process closes its connections");
    assert_eq!(first.finish().1, "");
    assert!(ask(&mut connect(second.address)).is_some());
    assert_eq!(second.stat("requests"), 1);
    let third = beside(&config(origin));
    assert_eq!(second.finish().1, "");
    assert!(ask(&mut connect(third.address)).is_some());
    assert_eq!(third.stop(), "");
}

#[test]
fn without_a_runtime_directory_there_is_no_upgrade() {
    let mut gateway = Gateway::start(&config(origin().0));
    gateway.signal(Signal::USR2);
    let expected = "]: cannot upgrade: the gateway runs without --runtime-dir; this process keeps serving\n";
    let message = gateway.message();
    assert!(message.contains("Z error weir-gateway[") && message.ends_with(expected), "{message}");
    assert!(ask(&mut connect(gateway.address)).is_some());
    let (code, messages) = crate::process::run(&config(origin().0), &["--runtime-dir", "/no/such/folder"]);
    let expected = "weir-gateway: --runtime-dir /no/such/folder: no such directory; create it first\n";
    assert_eq!((code, messages.as_str()), (Some(3), expected));
}

#[test]
fn a_runtime_directory_that_others_may_write_to_is_rejected() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = dir.path().display().to_string();
    let check = |reason: &str| {
        let (code, messages) = crate::process::run(&config(origin().0), &["--runtime-dir", &folder]);
        let expected = format!(
            "weir-gateway: --runtime-dir {folder}: {reason} and could take over the listening sockets; help: use a \
             directory that only the gateway's user may write to: `install -d -m 0700 DIR`\n"
        );
        assert_eq!((code, messages), (Some(3), expected));
    };
    for (mode, shown) in [(0o777, "0777"), (0o1777, "1777"), (0o702, "0702"), (0o770, "0770")] {
        std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).expect("it is ours");
        check(&format!("other users can write to this directory (mode {shown})"));
    }
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o750)).expect("it is ours");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-gateway"));
    command.arg("--runtime-dir").arg(&folder);
    assert_eq!(Gateway::spawn(&config(origin().0), command).stop(), "");
    // Only root can change the owner of a directory.
    if std::os::unix::fs::chown(dir.path(), Some(65_534), None).is_ok() {
        check("another user (uid 65534) owns this directory");
    }
}
