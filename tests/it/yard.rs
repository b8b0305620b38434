//! A folder for all files of one test, with functions that find what the test's runs leave behind, in the folder and on
//! the host.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{finish, json, text, wait, weir};

/// Interval between searches for leftovers. `LOOKS` is the maximum number of searches.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOKS: u32 = 1_200;

/// A folder for the `weir` commands of one test. Each test has separate temporary files, a separate lock and a separate
/// database.
pub struct Yard {
    folder: tempfile::TempDir,
    /// Process IDs of the started labs. Names of control groups contain them.
    labs: RefCell<Vec<u32>>,
}

impl Yard {
    /// An empty yard.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tmp", "state"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, labs: RefCell::default() }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder for temporary files.
    pub fn tmp(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// A `weir` command that uses the folders of this yard.
    pub fn weir(&self, arguments: &[&str]) -> Command {
        self.at_home(weir(self.path(), arguments))
    }

    /// `command` with the yard's folders.
    pub fn at_home(&self, mut command: Command) -> Command {
        command.env("TMPDIR", self.tmp()).env("WEIR_STATE_DIR", self.path().join("state"));
        command
    }

    /// Starts `command`, which is `weir`.
    pub fn start(&self, mut command: Command) -> Child {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        self.labs.borrow_mut().push(child.id());
        child
    }

    /// Runs `weir` until it exits.
    pub fn run(&self, arguments: &[&str]) -> Output {
        wait(self.start(self.weir(arguments)))
    }

    /// The latest run of `weir.db`: (ID, number of stored cells).
    pub fn latest(&self) -> Option<(String, u64)> {
        let output = finish(self.weir(&["runs", "--db", "weir.db", "--json"]));
        let runs: Value = serde_json::from_slice(&output.stdout).ok()?;
        let run = runs.as_array()?.first()?;
        Some((run["id"].as_str()?.to_owned(), run["cells_done"].as_u64()?))
    }

    /// The cells of the latest run of `database`: (key, start time in Unix milliseconds).
    pub fn cells(&self, database: &str) -> Vec<(String, u64)> {
        let output = finish(self.weir(&["report", "last", "--db", database, "--out", "again", "--json"]));
        let result = json(&output);
        let one = |cell: &Value| (cell["key"].to_string(), cell["started_unix_ms"].as_u64().unwrap());
        result["cells"].as_array().unwrap().iter().map(one).collect()
    }

    /// Leftovers of everything that was started: processes, control groups, temporary files, ledgers, a held lock.
    pub fn left_over(&self) -> Vec<String> {
        let processes = self.processes().into_iter();
        let mut left: Vec<String> =
            processes.map(|(pid, command)| format!("process {pid}: {command}")).collect();
        left.extend(self.groups());
        let files = |folder: &str| {
            let entries = fs::read_dir(self.path().join(folder)).unwrap().flatten();
            entries.map(|entry| entry.path().display().to_string()).collect::<Vec<_>>()
        };
        left.extend(files("tmp"));
        left.extend(files("state").into_iter().filter(|path| !path.ends_with("/host.lock")));
        let lock = File::options().write(true).open(self.path().join("state/host.lock"));
        if lock.is_ok_and(|lock| lock.try_lock().is_err()) {
            left.push("the host's lock".into());
        }
        left
    }

    /// Waits until nothing is left over. Panics with the leftovers after a minute.
    pub fn await_nothing_left(&self) {
        for _ in 0..LOOKS {
            if self.left_over().is_empty() {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        panic!("left over: {:#?}", self.left_over());
    }

    /// Processes with this folder in their command line or environment. Descendants inherit the environment.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let folder = self.path().as_os_str().as_encoded_bytes();
        let speaks_of = |path: &Path| {
            let bytes = fs::read(path).unwrap_or_default();
            bytes.windows(folder.len()).any(|window| window == folder)
        };
        let own = std::process::id() as i32;
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let folder_of = |pid: &i32| PathBuf::from(format!("/proc/{pid}"));
        let ours = pids.filter(|pid| {
            *pid != own && ["cmdline", "environ"].iter().any(|name| speaks_of(&folder_of(pid).join(name)))
        });
        ours.map(|pid| {
            let command = fs::read(folder_of(&pid).join("cmdline")).unwrap_or_default();
            (pid, text(&command).replace('\0', " "))
        })
        .collect()
    }

    /// Control groups are named `weir-RUN-LAB-N`.
    fn groups(&self) -> Vec<String> {
        let labs = self.labs.borrow();
        // Agents of a run have their own groups, which are named after the run.
        let agents = self.path().join("weir.db").exists().then(|| self.latest()).flatten();
        let agents = agents.map(|(run, _)| format!("weir-agent-{run}-"));
        let is_ours = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut words = name.rsplit('-').skip(1);
            let is_of_lab = words.next().is_some_and(|pid| labs.iter().any(|lab| lab.to_string() == pid));
            name.starts_with("weir-") && is_of_lab
                || agents.as_ref().is_some_and(|prefix| name.starts_with(prefix))
        };
        let below = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        };
        let roots = below(Path::new("/sys/fs/cgroup"));
        let all = roots.iter().flat_map(|root| below(root)).chain(roots.iter().cloned());
        all.filter(|path| is_ours(path)).map(|path| path.display().to_string()).collect()
    }
}

impl Drop for Yard {
    /// Kills the processes that a failed test leaves behind.
    fn drop(&mut self) {
        // Guards are not killed, because they clean up after their labs end.
        for (pid, _) in self.processes().into_iter().filter(|(_, command)| !command.contains(" guard ")) {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Integrity check of a database by Python's build of SQLite; `ok` if it is intact.
pub fn integrity(database: &Path) -> String {
    let script = "import sqlite3, sys\n\
                  connection = sqlite3.connect(sys.argv[1])\n\
                  print('; '.join(row[0] for row in connection.execute('PRAGMA integrity_check')))";
    let output = Command::new("python3").args(["-c", script]).arg(database).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}
