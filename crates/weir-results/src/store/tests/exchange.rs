//! Archives, and the import of runs into other databases.

use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::upgrade::rich;
use super::*;
use crate::{ARCHIVE_VERSION, Archive, ArchiveError, read_archive, write_archive};

/// Folder with an archive of every released version.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

/// An archive with two cells: one whose loads have routes and steps, and one that failed.
fn every_kind() -> Archive {
    let run = Run { ended_unix_ms: Some(99), ..run("20261121-0210-aaaa", 10) };
    let cells = vec![rich(&run), failed_cell(&run, 1)];
    Archive { run, cells }
}

fn written(archive: &Archive) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_archive(&archive.run, &archive.cells, &mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<Archive, ArchiveError> {
    read_archive("run.weir", bytes)
}

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

fn packed(text: &str) -> Vec<u8> {
    let mut output = GzEncoder::new(Vec::new(), Compression::default());
    output.write_all(text.as_bytes()).unwrap();
    output.finish().unwrap()
}

#[test]
fn an_archive_is_read_as_written() {
    let whole = every_kind();
    let unfinished = Archive { cells: vec![failed_cell(&whole.run, 1)], ..whole.clone() };
    let empty = Archive { cells: vec![], ..whole.clone() };
    for archive in [whole, unfinished, empty] {
        assert_eq!(read(&written(&archive)).unwrap(), archive);
    }
}

#[test]
fn cells_of_a_resumed_run_are_read_in_the_order_of_the_plan() {
    let archive = every_kind();
    let turned = Archive { cells: archive.cells.iter().rev().cloned().collect(), ..archive.clone() };
    assert_eq!(read(&written(&turned)).unwrap(), archive);
}

#[test]
fn a_truncated_archive_is_rejected() {
    let bytes = written(&every_kind());
    for end in (0..bytes.len()).step_by(3) {
        let error = read(&bytes[..end]).unwrap_err();
        let known = if end < 2 { "not an archive" } else { "incomplete" };
        assert!(error.to_string().contains(known), "{end}: {error}");
    }
    // The file is truncated between two lines and compressed again, so that gzip detects nothing.
    let text = unpacked(&bytes);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let error = read(&packed(&lines[..3].concat())).unwrap_err();
    assert_eq!(error.to_string(), "run.weir: the file is incomplete: it ends in line 4");
}

#[test]
fn a_changed_byte_is_detected_or_harmless() {
    let archive = every_kind();
    let bytes = written(&archive);
    let mut refused = 0;
    for place in (0..bytes.len()).step_by(3) {
        let mut changed = bytes.clone();
        changed[place] ^= 0x10;
        match read(&changed) {
            // Some bytes of the gzip header (time, system) do not affect the content.
            Ok(read) => assert_eq!(read, archive, "byte {place}"),
            Err(error) => {
                assert!(error.to_string().starts_with("run.weir: "), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > bytes.len() / 3 - 10, "{refused} of {} changes were rejected", bytes.len() / 3);
}

/// Checks that an archive is rejected with this message if `from` in its text is replaced by `to`.
fn check(from: &str, to: &str, message: &str) {
    let text = unpacked(&written(&every_kind()));
    assert!(text.contains(from), "{from}");
    let error = read(&packed(&text.replacen(from, to, 1))).unwrap_err();
    assert_eq!(error.to_string(), format!("run.weir: {message}"));
    assert!(error.is_wrong_use() && !error.remedy().is_empty());
}

#[test]
fn newer_archives_are_rejected_by_version() {
    let (archive, schema) = (ARCHIVE_VERSION, SCHEMA_VERSION);
    check(
        &format!("\"archive_version\":{archive}"),
        "\"archive_version\":99,\"sealed\":true",
        &format!("the archive has version 99, but this weir supports versions up to {archive}"),
    );
    check(
        &format!("\"schema_version\":{schema},\"weir"),
        "\"schema_version\":99,\"weir",
        &format!("the result schema has version 99, but this weir supports versions up to {schema}"),
    );
}

#[test]
fn contradictions_are_reported_with_their_line() {
    check(
        "{\"run\":",
        "{\"ran\":",
        "line 2 is damaged: unknown variant `ran`, expected one of `weir`, `run`, `cell`, `end` at column 6",
    );
    check(
        "\"seed\":18446744073709551615",
        "\"seed\":-1",
        "line 2 is damaged: invalid value: integer `-1`, expected u64 at column 153",
    );
    check(
        "{\"end\":{\"cells\":2}}",
        "{\"end\":{\"cells\":3}}",
        "line 5 is damaged: expected 3 cells, found 2",
    );
    check(
        "{\"end\":{\"cells\":2}}\n",
        "{\"end\":{\"cells\":2}}\n\n",
        "line 6 is damaged: unexpected data after the last line of the archive",
    );
    check(
        "{\"cell\":{\"key\":{\"index\":0",
        "{\"cell\":{\"key\":{\"index\":7",
        "line 3 is damaged: cell 7 is not in the run's plan",
    );
    check(
        "{\"index\":1,\"gateway\":\"direct\"",
        "{\"index\":0,\"gateway\":\"direct\"",
        "line 2 is damaged: the plan has cell 0 twice",
    );
    check(
        "\"id\":\"20261121-0210-aaaa\"",
        "\"id\":\"../../etc\"",
        "line 2 is damaged: `../../etc` is not a run id",
    );
    check("\"id\":\"20261121-0210-aaaa\"", "\"id\":\"last\"", "line 2 is damaged: `last` is not a run id");
    check(
        "\"name\":\"side-by-side\",\"question\"",
        "\"name\":\"a\\u001b[2Jb\",\"question\"",
        "line 2 is damaged: `a\\u{1b}[2Jb` is not a valid name",
    );
    check(
        "\"latency\":\"",
        "\"latency\":\"!",
        "line 3 is damaged: cell 0, load `full`: the histogram is not base64: Invalid symbol 33, offset 0.",
    );
}

#[test]
fn a_duplicate_cell_is_rejected() {
    let mut archive = every_kind();
    archive.cells.push(archive.cells[1].clone());
    let error = read(&written(&archive)).unwrap_err();
    assert_eq!(error.to_string(), "run.weir: line 5 is damaged: duplicate cell 1");
}

#[test]
fn other_files_are_not_archives() {
    let other = packed("name,rate\nweir,5\n");
    let json = packed("{\"run\":{}}\n");
    for bytes in [&b""[..], b"name,rate\n", b"PAR1", &other, &json] {
        let error = read(bytes).unwrap_err();
        assert_eq!(error.to_string(), "run.weir: the file is not an archive of a run");
    }
}

#[test]
fn an_imported_run_equals_the_original() {
    let (folder, archive) = (Folder::new(), every_kind());
    let mut store = Store::open(&folder.db()).unwrap();
    assert_eq!(store.import(&archive.run, &archive.cells).unwrap(), Imported::New);
    assert_eq!(store.run(&archive.run.id).unwrap(), archive.run);
    assert_eq!(store.cells(&archive.run.id).unwrap(), archive.cells);
    assert_eq!(store.find("last").unwrap(), archive.run.id);
    assert_eq!(store.import(&archive.run, &archive.cells).unwrap(), Imported::Present);
}

#[test]
fn other_content_under_the_same_id_is_rejected_and_overwrites_nothing() {
    let (folder, archive) = (Folder::new(), every_kind());
    let mut store = Store::open(&folder.db()).unwrap();
    store.import(&archive.run, &archive.cells).unwrap();
    let mut renamed = archive.clone();
    renamed.run.name = "another".into();
    let mut slower = archive.clone();
    slower.cells[0].ended_unix_ms += 1;
    let mut fewer = archive.clone();
    fewer.cells.pop();
    for (other, difference) in [
        (renamed, "the plan, the scenario or the manifest differs"),
        (slower, "cell 0"),
        (fewer, "2 finished cells in the database, 1 in the file"),
    ] {
        let error = store.import(&other.run, &other.cells).unwrap_err();
        let path = folder.db();
        let said = format!(
            "{}: run 20261121-0210-aaaa is already in the database with different content: {difference}",
            path.display()
        );
        assert_eq!(error.to_string(), said);
        assert!(error.is_wrong_use());
        assert_eq!(store.run(&archive.run.id).unwrap(), archive.run);
        assert_eq!(store.cells(&archive.run.id).unwrap(), archive.cells);
    }
}

#[test]
fn a_failed_import_changes_nothing() {
    let (folder, mut archive) = (Folder::new(), every_kind());
    // The last cell cannot be stored, because SQLite's integers end at 2^63 - 1.
    archive.cells[1].ended_unix_ms = u64::MAX;
    let mut store = Store::open(&folder.db()).unwrap();
    let error = store.import(&archive.run, &archive.cells).unwrap_err();
    assert!(matches!(error, StoreError::Unstorable { .. }), "{error}");
    assert_eq!(store.runs().unwrap(), []);
    for table in ["plan", "manifests", "cells", "measurements", "seconds", "histograms"] {
        let sql = format!("SELECT count(*) FROM {table}");
        let rows: i64 = store.connection.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

/// Path of the fixture for the current versions.
fn fixture() -> PathBuf {
    Path::new(FIXTURES).join(format!("archive-{ARCHIVE_VERSION}-schema-{SCHEMA_VERSION}.weir"))
}

#[test]
#[ignore = "writes the fixture of the current versions; CONTRIBUTING.md says when"]
fn write_the_fixture() {
    assert!(!fixture().exists(), "a released fixture must not be overwritten");
    std::fs::write(fixture(), written(&every_kind())).unwrap();
}

#[test]
fn archives_of_every_version_stay_readable() {
    assert!(fixture().exists(), "the current versions have no fixture: {}", fixture().display());
    for file in std::fs::read_dir(FIXTURES).unwrap() {
        let path = file.unwrap().path();
        let archive = read_archive("fixture", std::fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(
            (archive.run.id.as_str(), archive.run.seed, archive.run.plan.len(), archive.cells.len()),
            ("20261121-0210-aaaa", u64::MAX, 2, 2),
            "{}",
            path.display()
        );
        let CellOutcome::Measured { measurements } = &archive.cells[0].outcome else { panic!("cell 0") };
        let loads: Vec<&str> = measurements.iter().map(|measurement| measurement.load.as_str()).collect();
        assert_eq!(loads, ["full", "tail"]);
        for measurement in measurements {
            let record = &measurement.record;
            assert_eq!(record.latency.decode().unwrap().len(), 3);
            assert_eq!((record.result.latency_ns.max, record.whole.timed_out), (None, 1));
            assert_eq!(measurement.judgement.verdicts.latency, [Reason::Throttled, Reason::HostNoise]);
            assert_eq!(record.steps[0].phase_end_mono_ns, u64::from(u32::MAX));
        }
        let CellOutcome::Failed { cause, .. } = &archive.cells[1].outcome else { panic!("cell 1") };
        assert_eq!(cause, "died");
        let folder = Folder::new();
        let mut store = Store::open(&folder.db()).unwrap();
        assert_eq!(store.import(&archive.run, &archive.cells).unwrap(), Imported::New);
        assert_eq!(store.cells(&archive.run.id).unwrap(), archive.cells);
    }
}
