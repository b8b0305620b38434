//! Failed writes: a full disk, a read-only disk, a locked database, a damaged database. Each causes one clear error,
//! overwrites nothing and loses nothing. The run resumes after the cause is removed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::program::{json, scenario, text, the_host, until, wait};
use crate::run::measurements;
use crate::yard::{Yard, integrity};

/// A small disk at the path `disk` in the folder of a `Yard`. It is mounted only in the mount namespace of the process
/// `holder`.
pub struct Disk<'a> {
    yard: &'a Yard,
    holder: Child,
}

impl<'a> Disk<'a> {
    /// Mounts a disk of this size.
    pub fn mount(yard: &'a Yard, size: &str) -> Self {
        fs::create_dir(yard.path().join("disk")).unwrap();
        let script = format!("mount -t tmpfs -o size={size} tmpfs disk && echo mounted && read end");
        let is_root = rustix::process::geteuid().is_root();
        // Users other than root become root in a user namespace.
        let kind: &[&str] = if is_root { &["--mount"] } else { &["--mount", "--map-root-user"] };
        let mut holder = Command::new("unshare")
            .args(kind)
            .args(["sh", "-c", &script])
            .current_dir(yard.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n", "a test of full disks needs `unshare --mount`");
        Self { yard, holder }
    }

    /// A command that runs in the holder's mount namespace, where the disk is mounted.
    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.id())).arg("--mount");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        // Start in the holder's working directory, where the path `disk` leads to the mounted disk.
        command.arg("--wd");
        command.arg(program).args(arguments).env("XDG_DATA_HOME", self.yard.path().join("data"));
        self.yard.at_home(command)
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.yard.start(self.command(Path::new(env!("CARGO_BIN_EXE_weir")), arguments))
    }

    /// Runs `weir` in the holder's mount namespace until it exits.
    pub fn run(&self, arguments: &[&str]) -> Output {
        wait(self.start(arguments))
    }

    fn remount(&self, options: &str) {
        let status =
            self.command(Path::new("mount"), &["-o", &format!("remount,{options}"), "disk"]).status();
        assert!(status.unwrap().success());
    }

    /// The path of the file `name` on the disk, as seen from outside the mount namespace.
    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.holder.id()))
            .join(self.yard.path().strip_prefix("/").unwrap())
            .join("disk")
            .join(name)
    }

    /// Fills the disk.
    pub fn fill(&self) {
        let mut filler = File::options().create(true).append(true).open(self.file("filler")).unwrap();
        let mut piece = vec![1; 1 << 16];
        while !piece.is_empty() {
            if filler.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.file("filler")).unwrap();
    }

    fn cells_kept(&self) -> u64 {
        let output = self.run(&["runs", "--db", "disk/weir.db", "--json"]);
        let runs: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        runs[0]["cells_done"].as_u64().unwrap_or(0)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Checks that the command exits with code 3 and prints one error that contains `words`.
fn refused(output: &Output, words: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    let errors = error.lines().filter(|line| line.starts_with("error")).count();
    assert_eq!(errors, 1, "one error: {error}");
    assert!(error.contains(" help: "), "no help in: {error}");
    for word in words {
        assert!(error.contains(word), "{word:?} is missing in: {error}");
    }
}

fn went_well(output: &Output) {
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
}

/// Arguments of `weir run` for a small scenario in the folder of `yard`. The run writes to `database`.
fn run_of(yard: &Yard, repeats: &'static str, database: &'static str) -> Vec<String> {
    let path = scenario(yard.path(), "[weir]", "");
    let words = ["run", path.to_str().unwrap(), "--repeats", repeats, "--db", database, "--out", "out"];
    words.map(str::to_owned).into()
}

fn words(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

#[test]
fn a_disk_that_fills_up_during_a_run_loses_only_the_running_cell() {
    let _host = the_host();
    let yard = Yard::new();
    let disk = Disk::mount(&yard, "8m");
    let child = disk.start(&words(&run_of(&yard, "4", "disk/weir.db")));
    until("a finished cell", || disk.cells_kept() >= 1);
    disk.fill();
    refused(&wait(child), &["disk/weir.db: the disk is full", "free up disk space", "weir run --resume"]);
    assert_eq!(yard.left_over(), Vec::<String>::new());
    // While the disk is full, a resumed run fails in the same way.
    let resume = ["run", "--resume", "last", "--db", "disk/weir.db", "--out", "out"];
    refused(&disk.run(&resume), &["disk/weir.db", "the disk is full"]);

    disk.make_room();
    let kept = disk.cells_kept();
    assert!((1..8).contains(&kept), "{kept} cells are kept");
    went_well(&disk.run(&resume));
    assert_eq!(disk.cells_kept(), 8);
    assert_eq!(integrity(&disk.file("weir.db")), "ok");
    assert_eq!(yard.left_over(), Vec::<String>::new());
}

#[test]
fn a_full_disk_for_temporary_files_ends_the_run_and_fails_no_cell() {
    let _host = the_host();
    let yard = Yard::new();
    let disk = Disk::mount(&yard, "32m");
    let on_disk = |arguments: &[&str]| {
        let mut command = disk.command(Path::new(env!("CARGO_BIN_EXE_weir")), arguments);
        command.env("TMPDIR", yard.path().join("disk"));
        yard.start(command)
    };
    let child = on_disk(&words(&run_of(&yard, "4", "weir.db")));
    until("a finished cell", || yard.latest().is_some_and(|(_, done)| done >= 1));
    disk.fill();
    refused(&wait(child), &["disk/weir-work-", "no space left on device", "TMPDIR", "weir run --resume"]);
    let (_, kept) = yard.latest().unwrap();
    assert!((1..8).contains(&kept), "{kept} cells are kept");
    let only_filler =
        || fs::read_dir(disk.file("")).unwrap().flatten().all(|entry| entry.file_name() == "filler");
    assert!(only_filler(), "files are left on the disk");

    let resume = ["run", "--resume", "last", "--db", "weir.db", "--out", "out", "--json"];
    refused(&wait(on_disk(&resume)), &["no space left on device", "weir run --resume"]);
    disk.make_room();
    let output = wait(on_disk(&resume));
    went_well(&output);
    for gateway in ["weir", "direct"] {
        assert_eq!(measurements(&json(&output), gateway).len(), 8, "two loads in four repeats, none failed");
    }
    assert_eq!(fs::read_dir(disk.file("")).unwrap().count(), 0);
    assert_eq!(yard.left_over(), Vec::<String>::new());
}

#[test]
fn reports_that_cannot_be_written_leave_the_run_and_old_reports_intact() {
    let _host = the_host();
    let yard = Yard::new();
    let disk = Disk::mount(&yard, "2m");
    went_well(&disk.run(&words(&run_of(&yard, "1", "weir.db"))));
    let report = ["report", "last", "--db", "weir.db", "--out", "disk/out", "--format", "md"];
    went_well(&disk.run(&report));
    let old = fs::read(disk.file("out/report.md")).unwrap();
    disk.fill();
    refused(&disk.run(&report), &["disk/out", "cannot write the reports", "the run is stored", "--out DIR"]);
    assert_eq!(fs::read(disk.file("out/report.md")).unwrap(), old);
    let files = || fs::read_dir(disk.file("out")).unwrap().flatten().map(|entry| entry.file_name());
    assert!(
        !files().any(|name| name.to_string_lossy().ends_with(".part")),
        "{:?}",
        files().collect::<Vec<_>>()
    );

    disk.remount("ro");
    refused(&disk.run(&report), &["disk/out", "cannot write the reports", "--out DIR"]);
    assert_eq!(fs::read(disk.file("out/report.md")).unwrap(), old);
    // A new run fails before it measures.
    let mut run = run_of(&yard, "1", "other.db");
    *run.last_mut().unwrap() = "disk/new".into();
    refused(&disk.run(&words(&run)), &["disk/new", "cannot write the reports", "--out DIR"]);
    assert_eq!(text(&yard.run(&["runs", "--db", "other.db", "--json"]).stdout).trim(), "[]");
}

#[test]
fn a_read_only_database_can_be_read_but_not_written() {
    let _host = the_host();
    let yard = Yard::new();
    let disk = Disk::mount(&yard, "8m");
    let run = run_of(&yard, "1", "disk/weir.db");
    went_well(&disk.run(&words(&run)));
    let before = fs::read(disk.file("weir.db")).unwrap();
    disk.remount("ro");
    refused(&disk.run(&words(&run)), &["disk/weir.db", "cannot write the database", "--db FILE"]);
    let resume = ["run", "--resume", "last", "--repeats", "2", "--db", "disk/weir.db", "--out", "out"];
    refused(&disk.run(&resume), &["disk/weir.db", "cannot write the database", "--db FILE"]);
    assert_eq!(disk.cells_kept(), 2);
    went_well(&disk.run(&["report", "last", "--db", "disk/weir.db", "--out", "again"]));
    went_well(&disk.run(&["export", "last", "--db", "disk/weir.db", "--out", "run.weir"]));
    assert_eq!(fs::read(disk.file("weir.db")).unwrap(), before);
    disk.remount("rw");
    went_well(&disk.run(&resume));
    assert_eq!(disk.cells_kept(), 4);
}

/// Another process that holds an exclusive lock on a database.
struct Writer(Child);

impl Writer {
    fn hold(database: &Path) -> Self {
        let script = "import sqlite3, sys\n\
                      connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)\n\
                      connection.execute('BEGIN EXCLUSIVE')\n\
                      print('held', flush=True)\n\
                      sys.stdin.read()";
        let mut command = Command::new("python3");
        let command = command.args(["-c", script]).arg(database);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_locked_database_can_be_read_and_the_run_resumes_after_the_lock() {
    let _host = the_host();
    let yard = Yard::new();
    let child = yard.start(yard.weir(&words(&run_of(&yard, "4", "weir.db"))));
    until("a finished cell", || yard.latest().is_some_and(|(_, done)| done >= 1));
    let writer = Writer::hold(&yard.path().join("weir.db"));
    let (_, kept) = yard.latest().unwrap();
    let cells = yard.cells("weir.db");
    assert!(cells.len() as u64 == kept && kept < 8, "{kept} cells were kept before the lock");
    refused(&wait(child), &["weir.db: the database is locked by another process", "weir run --resume"]);
    drop(writer);
    assert_eq!(yard.left_over(), Vec::<String>::new());

    assert_eq!(yard.cells("weir.db"), cells);
    went_well(&yard.run(&["run", "--resume", "last", "--db", "weir.db", "--out", "out"]));
    let after = yard.cells("weir.db");
    assert!(after.len() == 8 && cells.iter().all(|cell| after.contains(cell)), "{cells:?}, then {after:?}");
    assert_eq!(integrity(&yard.path().join("weir.db")), "ok");
}

/// Changes the bytes of a database.
type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);

#[test]
fn a_damaged_or_newer_database_is_rejected_and_left_unchanged() {
    let _host = the_host();
    let yard = Yard::new();
    let run = run_of(&yard, "1", "weir.db");
    went_well(&yard.run(&words(&run)));
    let path = yard.path().join("weir.db");
    let good = fs::read(&path).unwrap();
    let middle = good.len() / 2;
    let damages: [(&str, Damage<'_>); 5] = [
        ("the file is damaged or not a database", &|bytes| bytes.truncate(middle)),
        ("the file is damaged or not a database", &|bytes| bytes.truncate(middle + 100)),
        ("the file is damaged or not a database", &|bytes| bytes[..16].copy_from_slice(b"SQLite format 2\0")),
        ("the file is damaged or not a database", &|bytes| noise(&mut bytes[middle..middle + 16_384])),
        // SQLite stores `user_version`, the version of the tables, at byte 60.
        ("the database has version 99, but this weir supports", &|bytes| {
            bytes[60..64].copy_from_slice(&[0, 0, 0, 99])
        }),
    ];
    for (said, damage) in damages {
        let mut bytes = good.clone();
        damage(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        for command in [words(&run), vec!["run", "--resume", "last", "--db", "weir.db", "--out", "out"]] {
            refused(&yard.run(&command), &["weir.db: ", said]);
            assert!(fs::read(&path).unwrap() == bytes, "{said}: {command:?} changed the file");
        }
        let beside: Vec<_> =
            fs::read_dir(yard.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(!beside.iter().any(|name| name.to_string_lossy().contains("weir.db-")), "{beside:?}");
        assert_eq!(yard.left_over(), Vec::<String>::new());
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(yard.cells("weir.db").len(), 2);
}

/// Fills `bytes` with reproducible noise from a linear congruential generator.
fn noise(bytes: &mut [u8]) {
    let mut state: u64 = 1;
    for byte in bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
}
