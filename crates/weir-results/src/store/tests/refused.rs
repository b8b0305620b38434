//! Tests of rejected databases: weir does not change a byte of them, and leaves no new file next to them.

use std::fs;
use std::path::Path;

use super::*;

/// Fills the database with a run of two cells, and returns the run.
fn filled(folder: &Folder) -> Run {
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    store.add_cell(&run.id, &cell(&run, 0)).unwrap();
    store.add_cell(&run.id, &failed_cell(&run, 1)).unwrap();
    run
}

fn beside(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Opens the database with both functions that open it for writing. Checks that both reject it as damaged.
fn refused_as_damaged(folder: &Folder) {
    let (bytes, names) = (fs::read(folder.db()).unwrap(), beside(&folder.db()));
    for open in [Store::open, Store::open_to_resume] {
        let error = open(&folder.db()).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
        assert!(fs::read(folder.db()).unwrap() == bytes, "the file was changed");
        assert_eq!(beside(&folder.db()), names);
    }
}

#[test]
fn a_truncated_or_overwritten_database_is_rejected_before_a_write() {
    let folder = Folder::new();
    filled(&folder);
    let good = fs::read(folder.db()).unwrap();
    for tenth in 1..10 {
        let place = good.len() * tenth / 10;
        fs::write(folder.db(), &good[..place]).unwrap();
        refused_as_damaged(&folder);
    }
    // Overwrite whole pages, so that each overwrite damages the tree of a table.
    for page in 0..good.len() / 4096 {
        let mut bytes = good.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(folder.db(), &bytes).unwrap();
        refused_as_damaged(&folder);
    }
}

#[test]
fn a_damaged_database_keeps_the_log_of_a_killed_run() {
    let folder = Folder::new();
    let run = filled(&folder);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&Run { id: "20261121-0211-bbbb".into(), ..run }).unwrap();
    // Copy the files in the state in which a killed process leaves them.
    let copy = Folder::new();
    for name in beside(&folder.db()) {
        fs::copy(folder.0.path().join(&name), copy.0.path().join(&name)).unwrap();
    }
    let mut bytes = fs::read(copy.db()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xa5);
    fs::write(copy.db(), &bytes).unwrap();
    let log = copy.0.path().join("weir.db-wal");
    let logged = fs::read(&log).unwrap();
    assert!(!logged.is_empty());
    refused_as_damaged(&copy);
    assert!(fs::read(&log).unwrap() == logged, "the log was changed");
}

#[test]
fn a_database_can_be_read_while_another_process_writes() {
    let folder = Folder::new();
    let run = filled(&folder);
    let writer = Connection::open(folder.db()).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut store = Store::open_existing(&folder.db()).unwrap();
    assert_eq!(store.cells(&run.id).unwrap().len(), 2);
    store.connection.busy_timeout(Duration::ZERO).unwrap();
    let error = store.end_run(&run.id, 5).unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    writer.execute_batch("ROLLBACK").unwrap();
    store.end_run(&run.id, 5).unwrap();
}

#[test]
fn a_database_in_a_read_only_folder_is_read_unless_it_has_a_log() {
    let folder = Folder::new();
    let run = filled(&folder);
    let names = beside(&folder.db());
    let unchanging = Store::connect_unchanging(&folder.db()).unwrap();
    assert_eq!(unchanging.cells(&run.id).unwrap().len(), 2);
    assert_eq!(beside(&folder.db()), names, "reading creates no file");
    drop(unchanging);
    let mut store = Store::open(&folder.db()).unwrap();
    store.end_run(&run.id, 5).unwrap();
    let error = Store::connect_unchanging(&folder.db()).unwrap_err();
    assert!(error.to_string().contains("(the -wal file next to it)"), "{error}");
}

#[test]
fn any_path_can_be_opened_as_immutable() {
    for name in ["weir.db", "a b?c#d%e.db", "größe.db"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        drop(Store::open(&path).unwrap());
        assert!(Store::connect_unchanging(&path).unwrap().runs().unwrap().is_empty(), "{name}");
    }
}
