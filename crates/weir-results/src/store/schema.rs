//! Tables of the database, and migrations of older databases.

use std::path::Path;

use rusqlite::Connection;

use super::StoreError;

/// `PRAGMA application_id` of weir's databases: "weir" in ASCII.
pub(super) const APPLICATION_ID: i64 = 0x7765_6972;

/// Migration `i` changes a database of version `i` to version `i + 1`. Never edit a released migration.
pub(super) const MIGRATIONS: &[&str] = &[
    VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7, VERSION_8, VERSION_9,
    VERSION_10,
];

const VERSION_1: &str = "
CREATE TABLE runs (
    id               TEXT PRIMARY KEY,
    schema_version   INTEGER NOT NULL,
    name             TEXT NOT NULL,
    question         TEXT NOT NULL,
    seed             TEXT NOT NULL,
    started_unix_ms  INTEGER NOT NULL,
    ended_unix_ms    INTEGER,
    scenario         TEXT NOT NULL,
    objective        TEXT NOT NULL,
    thresholds       TEXT NOT NULL
) STRICT;
CREATE TABLE manifests (
    run_id           TEXT PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE,
    manifest         TEXT NOT NULL
) STRICT;
CREATE TABLE plan (
    run_id           TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    cell             INTEGER NOT NULL,
    gateway          TEXT NOT NULL,
    axes             TEXT NOT NULL,
    repeat           INTEGER NOT NULL,
    PRIMARY KEY (run_id, cell)
) STRICT, WITHOUT ROWID;
CREATE TABLE cells (
    run_id           TEXT NOT NULL,
    cell             INTEGER NOT NULL,
    started_unix_ms  INTEGER NOT NULL,
    ended_unix_ms    INTEGER NOT NULL,
    outcome          TEXT NOT NULL CHECK (outcome IN ('measured', 'failed')),
    cause            TEXT,
    message          TEXT,
    remedy           TEXT,
    log_tail         TEXT,
    parts            TEXT NOT NULL,
    unequal          TEXT NOT NULL,
    PRIMARY KEY (run_id, cell),
    FOREIGN KEY (run_id, cell) REFERENCES plan(run_id, cell) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE measurements (
    run_id              TEXT NOT NULL,
    cell                INTEGER NOT NULL,
    place               INTEGER NOT NULL,
    load                TEXT NOT NULL,
    model               TEXT NOT NULL,
    connections         INTEGER NOT NULL,
    asked_rate_per_s    REAL,
    rate_per_s          REAL NOT NULL,
    latency_p50_ns      INTEGER,
    latency_p99_ns      INTEGER,
    cpu_us_per_request  REAL,
    bound_by            TEXT NOT NULL,
    evidence            TEXT NOT NULL,
    result              TEXT NOT NULL,
    whole               TEXT NOT NULL,
    whole_uncertain     INTEGER NOT NULL,
    phase_start_mono_ns INTEGER NOT NULL,
    phase_end_mono_ns   INTEGER NOT NULL,
    generator           TEXT NOT NULL,
    usage               TEXT NOT NULL,
    counters            TEXT NOT NULL,
    host                TEXT NOT NULL,
    PRIMARY KEY (run_id, cell, place),
    FOREIGN KEY (run_id, cell) REFERENCES cells(run_id, cell) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE verdicts (
    run_id           TEXT NOT NULL,
    cell             INTEGER NOT NULL,
    place            INTEGER NOT NULL,
    metric           TEXT NOT NULL CHECK (metric IN ('throughput', 'latency', 'cpu')),
    position         INTEGER NOT NULL,
    reason           TEXT NOT NULL,
    PRIMARY KEY (run_id, cell, place, metric, position),
    FOREIGN KEY (run_id, cell, place) REFERENCES measurements(run_id, cell, place) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE histograms (
    run_id           TEXT NOT NULL,
    cell             INTEGER NOT NULL,
    place            INTEGER NOT NULL,
    kind             TEXT NOT NULL CHECK (kind IN ('latency', 'service_time', 'lateness')),
    hdr_v2           BLOB NOT NULL,
    PRIMARY KEY (run_id, cell, place, kind),
    FOREIGN KEY (run_id, cell, place) REFERENCES measurements(run_id, cell, place) ON DELETE CASCADE
) STRICT;
CREATE TABLE seconds (
    run_id           TEXT NOT NULL,
    cell             INTEGER NOT NULL,
    place            INTEGER NOT NULL,
    position         INTEGER NOT NULL,
    t_s              REAL NOT NULL,
    length_s         REAL NOT NULL,
    sustained        INTEGER NOT NULL,
    sent             INTEGER NOT NULL,
    completed        INTEGER NOT NULL,
    unexpected       INTEGER NOT NULL,
    lost             INTEGER NOT NULL,
    latency_hdr_v2   BLOB NOT NULL,
    PRIMARY KEY (run_id, cell, place, position),
    FOREIGN KEY (run_id, cell, place) REFERENCES measurements(run_id, cell, place) ON DELETE CASCADE
) STRICT;
CREATE TABLE samples (
    run_id           TEXT NOT NULL,
    cell             INTEGER NOT NULL,
    place            INTEGER NOT NULL,
    position         INTEGER NOT NULL,
    t_s              REAL NOT NULL,
    cpu_cores        TEXT NOT NULL,
    memory_bytes     TEXT NOT NULL,
    PRIMARY KEY (run_id, cell, place, position),
    FOREIGN KEY (run_id, cell, place) REFERENCES measurements(run_id, cell, place) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
";

/// Adds routes and steps of loads, and limits of hosts.
const VERSION_2: &str = "
ALTER TABLE measurements ADD COLUMN routes TEXT NOT NULL DEFAULT '[]';
ALTER TABLE measurements ADD COLUMN steps TEXT NOT NULL DEFAULT '[]';
CREATE TABLE hosts (
    fingerprint      TEXT PRIMARY KEY,
    measured_unix_ms INTEGER NOT NULL,
    bounds           TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Adds a column for the kept files of each cell.
const VERSION_3: &str = "
ALTER TABLE cells ADD COLUMN files TEXT NOT NULL DEFAULT '[]';
";

/// Adds CPU use per core, and TCP statistics.
const VERSION_4: &str = "
ALTER TABLE measurements ADD COLUMN host_usage TEXT NOT NULL DEFAULT 'null';
";

/// Adds the number of attempts per cell.
const VERSION_5: &str = "
ALTER TABLE cells ADD COLUMN attempts INTEGER NOT NULL DEFAULT 1;
";

/// Adds route changes under load, and trials of searches.
const VERSION_6: &str = "
CREATE TABLE route_changes (
    run_id           TEXT NOT NULL,
    cell             INTEGER NOT NULL,
    place            INTEGER NOT NULL,
    position         INTEGER NOT NULL,
    change           TEXT NOT NULL,
    PRIMARY KEY (run_id, cell, place, position),
    FOREIGN KEY (run_id, cell, place) REFERENCES measurements(run_id, cell, place) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
ALTER TABLE measurements ADD COLUMN trial TEXT NOT NULL DEFAULT 'null';
";

/// Adds cold starts of gateways.
const VERSION_7: &str = "
ALTER TABLE cells ADD COLUMN cold_start TEXT NOT NULL DEFAULT 'null';
";

/// Adds faults of the upstream under load.
const VERSION_8: &str = "
ALTER TABLE measurements ADD COLUMN faults TEXT NOT NULL DEFAULT '[]';
";

/// Adds results of slow clients.
const VERSION_9: &str = "
ALTER TABLE measurements ADD COLUMN slow TEXT NOT NULL DEFAULT 'null';
";

/// Adds events under load. Moves all columns that no query uses into documents, and copies the JSON in these columns
/// byte for byte.
const VERSION_10: &str = r#"
ALTER TABLE cells ADD COLUMN document TEXT NOT NULL DEFAULT '{}';
UPDATE cells SET document = '{"version":1'
    || ',"message":' || json_quote(message)
    || ',"remedy":' || json_quote(remedy)
    || ',"log_tail":' || json_quote(log_tail)
    || ',"parts":' || parts
    || ',"unequal":' || unequal
    || ',"files":' || files
    || ',"attempts":' || attempts
    || ',"cold_start":' || cold_start
    || '}';
ALTER TABLE cells DROP COLUMN message;
ALTER TABLE cells DROP COLUMN remedy;
ALTER TABLE cells DROP COLUMN log_tail;
ALTER TABLE cells DROP COLUMN parts;
ALTER TABLE cells DROP COLUMN unequal;
ALTER TABLE cells DROP COLUMN files;
ALTER TABLE cells DROP COLUMN attempts;
ALTER TABLE cells DROP COLUMN cold_start;
ALTER TABLE measurements ADD COLUMN events TEXT NOT NULL DEFAULT '[]';
ALTER TABLE measurements ADD COLUMN document TEXT NOT NULL DEFAULT '{}';
UPDATE measurements SET document = '{"version":1'
    || ',"evidence":' || evidence
    || ',"result":' || result
    || ',"whole":' || whole
    || ',"whole_uncertain":' || whole_uncertain
    || ',"phase_start_mono_ns":' || phase_start_mono_ns
    || ',"phase_end_mono_ns":' || phase_end_mono_ns
    || ',"generator":' || generator
    || ',"usage":' || usage
    || ',"counters":' || counters
    || ',"host":' || host
    || ',"host_usage":' || host_usage
    || ',"routes":' || routes
    || ',"steps":' || steps
    || ',"trial":' || trial
    || ',"route_changes":[' || coalesce((
        SELECT group_concat(change, ',' ORDER BY position) FROM route_changes
        WHERE route_changes.run_id = measurements.run_id
            AND route_changes.cell = measurements.cell AND route_changes.place = measurements.place
    ), '')
    || '],"faults":' || faults
    || ',"slow":' || slow
    || '}';
DROP TABLE route_changes;
ALTER TABLE measurements DROP COLUMN evidence;
ALTER TABLE measurements DROP COLUMN result;
ALTER TABLE measurements DROP COLUMN whole;
ALTER TABLE measurements DROP COLUMN whole_uncertain;
ALTER TABLE measurements DROP COLUMN phase_start_mono_ns;
ALTER TABLE measurements DROP COLUMN phase_end_mono_ns;
ALTER TABLE measurements DROP COLUMN generator;
ALTER TABLE measurements DROP COLUMN usage;
ALTER TABLE measurements DROP COLUMN counters;
ALTER TABLE measurements DROP COLUMN host;
ALTER TABLE measurements DROP COLUMN host_usage;
ALTER TABLE measurements DROP COLUMN routes;
ALTER TABLE measurements DROP COLUMN steps;
ALTER TABLE measurements DROP COLUMN trial;
ALTER TABLE measurements DROP COLUMN faults;
ALTER TABLE measurements DROP COLUMN slow;
"#;

/// Rejects files that are not a database, databases of other programs, and newer databases: this program must not
/// change them. Returns whether the database has the newest version.
pub(super) fn check(path: &Path, connection: &Connection) -> Result<bool, StoreError> {
    let failed = |error| StoreError::from_sqlite(path, error);
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    // The first query reads the file header, so it fails if the file is not a database.
    let version = number("user_version").map_err(failed)?;
    let application = number("application_id").map_err(failed)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if application != APPLICATION_ID && (tables > 0 || application != 0) {
        return Err(StoreError::Foreign { path: path.to_path_buf() });
    }
    let known = MIGRATIONS.len() as i64;
    if version > known {
        return Err(StoreError::Newer { path: path.to_path_buf(), found: version, known });
    }
    Ok(version == known)
}

/// Rejects a database with inconsistent pages, before anything changes it. Reads the whole database, which takes about
/// a second for every few hundred megabytes.
pub(super) fn check_whole(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match found.map_err(|error| StoreError::from_sqlite(path, error))?.as_str() {
        "ok" => Ok(()),
        found => {
            let detail = found.split_whitespace().collect::<Vec<_>>().join(" ");
            Err(StoreError::Damaged { path: path.to_path_buf(), detail })
        }
    }
}

/// Migrates the database to the newest version. Each migration and its new version number are committed together.
pub(super) fn migrate(path: &Path, connection: &mut Connection) -> Result<(), StoreError> {
    let failed = |error| StoreError::from_sqlite(path, error);
    loop {
        // Lock the database before reading its version. Otherwise two programs that open a new file could both create
        // the tables.
        let step = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
        let step = step.map_err(failed)?;
        let version: i64 = step.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
        let Some(sql) = usize::try_from(version).ok().and_then(|version| MIGRATIONS.get(version)) else {
            return Ok(());
        };
        step.execute_batch(sql).map_err(failed)?;
        step.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        step.pragma_update(None, "user_version", version + 1).map_err(failed)?;
        step.commit().map_err(failed)?;
    }
}
