//! Killed and interrupted runs: finished cells are kept, and no process, file or control group is left over.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{json, scenario, text, the_host, until, wait};
use crate::yard::{Yard, integrity};

/// Starts a run of a scenario with `more` appended, and waits until at least two of its cells are stored.
pub fn started(yard: &Yard, more: &str) -> (Child, String, u64) {
    let path = scenario(yard.path(), "[weir]", more);
    let arguments = ["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out", "--repeats", "4"];
    let mut child = yard.start(yard.weir(&arguments));
    let mut found = (String::new(), 0);
    until("two finished cells", || {
        found = yard.latest().unwrap_or_default();
        let ended = child.try_wait().unwrap().filter(|_| found.1 < 2);
        assert!(ended.is_none(), "it ended before its second cell: {ended:?}");
        found.1 >= 2
    });
    (child, found.0, found.1)
}

#[test]
fn a_killed_run_resumes_without_repeating_a_cell_and_leaves_nothing_behind() {
    let _host = the_host();
    let yard = Yard::new();
    let (mut child, id, _) = started(&yard, "");
    child.kill().unwrap();
    child.wait().unwrap();
    yard.await_nothing_left();
    let before = yard.cells("weir.db");

    let output = yard.run(&["run", "--resume", &id, "--db", "weir.db", "--out", "out", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let after = yard.cells("weir.db");
    let distinct: BTreeSet<_> = after.iter().map(|(key, _)| key).collect();
    assert_eq!((after.len(), distinct.len()), (8, 8), "{after:?}");
    for cell in &before {
        assert!(after.contains(cell), "{cell:?} was measured again");
    }
    assert_eq!(yard.left_over(), Vec::<String>::new());
}

#[test]
fn ctrl_c_keeps_finished_cells_and_leaves_nothing_behind() {
    let _host = the_host();
    let yard = Yard::new();
    let (child, _, done) = started(&yard, "");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("--resume"), "no hint to resume: {}", text(&output.stderr));
    yard.await_nothing_left();
    assert!(yard.cells("weir.db").len() as u64 >= done);
}

/// A moment of a run: the start, the creation of a file, or the storage of the n-th cell.
enum Moment {
    /// Before anything exists.
    Start,
    /// A file exists at this path, relative to [`Yard::path`]. `*word` matches each name that contains the word.
    File(&'static str),
    /// At least this many stored cells.
    Cells(u64),
}

impl Moment {
    fn has_come(&self, yard: &Yard) -> bool {
        match self {
            Self::Start => true,
            Self::File(pattern) => is_there(yard.path(), &pattern.split('/').collect::<Vec<_>>()),
            Self::Cells(count) => yard.latest().is_some_and(|(_, done)| done >= *count),
        }
    }
}

/// Whether a path under `folder` matches the names. `*word` matches each name that contains the word.
pub fn is_there(folder: &Path, names: &[&str]) -> bool {
    let Some((name, rest)) = names.split_first() else { return true };
    match name.strip_prefix('*') {
        None => folder.join(name).symlink_metadata().is_ok() && is_there(&folder.join(name), rest),
        Some(word) => {
            std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
                entry.file_name().to_string_lossy().contains(word) && is_there(&entry.path(), rest)
            })
        }
    }
}

#[test]
fn a_run_killed_at_every_stage_ends_with_the_cells_of_an_uninterrupted_run() {
    // The run is killed at each of these moments, in this order.
    let moments = [
        Moment::Start,
        Moment::File("weir.db"),
        Moment::File("state/*.ledger"),
        Moment::File("tmp/*weir-work-"),
        Moment::File("tmp/*weir-work-/*cell-/origin.log"),
        Moment::File("tmp/*weir-work-/*cell-/*generator.log"),
        Moment::File("tmp/*weir-work-/*cell-/*record.json"),
        Moment::Cells(1),
        Moment::File("out/*report"),
    ];
    let _host = the_host();
    let yard = Yard::new();
    let path = scenario(yard.path(), "[weir]", "");
    let path = path.to_str().unwrap();
    let new = ["run", path, "--seed", "5", "--db", "weir.db", "--out", "out"];
    let resumed = ["run", "--resume", "last", "--db", "weir.db", "--out", "out"];
    let mut kept = Vec::new();
    for moment in &moments {
        let mut child = yard.start(yard.weir(if yard.latest().is_some() { &resumed } else { &new }));
        let mut ended = false;
        until("the moment", || {
            ended = child.try_wait().unwrap().is_some();
            ended || moment.has_come(&yard)
        });
        if ended {
            // The run ends shortly after it writes the first report file.
            let output = wait(child);
            let said = text(&output.stderr);
            assert!(std::ptr::eq(moment, &moments[moments.len() - 1]), "ended before it was killed: {said}");
            assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{said}");
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        if yard.latest().is_some() {
            let now = yard.cells("weir.db");
            assert!(kept.iter().all(|cell| now.contains(cell)), "{kept:?} are not among {now:?}");
            kept = now;
        }
    }
    yard.await_nothing_left();
    assert_eq!(integrity(&yard.path().join("weir.db")), "ok");
    let output = yard.run(&[&resumed[..], &["--json"]].concat());
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let unbroken =
        json(&yard.run(&["run", path, "--seed", "5", "--db", "other.db", "--out", "other", "--json"]));
    let keys = |cells: &[(String, u64)]| cells.iter().map(|cell| cell.0.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&yard.cells("weir.db")), keys(&yard.cells("other.db")));
    assert_eq!(unbroken["cells"].as_array().unwrap().len(), 4);
    assert_eq!(integrity(&yard.path().join("weir.db")), "ok");
    assert_eq!(yard.left_over(), Vec::<String>::new());
}

#[test]
fn a_killed_doctor_leaves_no_process() {
    let _host = the_host();
    let yard = Yard::new();
    let mut doctor = yard.start(yard.weir(&["doctor", "--db", "weir.db"]));
    let measures = |left: &[String]| left.iter().any(|what| what.contains("origin --listen"));
    until("the origin of doctor", || measures(&yard.left_over()));
    doctor.kill().unwrap();
    doctor.wait().unwrap();
    yard.await_nothing_left();
}
