//! The user's own configuration files: how weir finds and reads them, and stores them with the run.

use std::path::Path;

use weir_lab::{Checked, LabError, Overrides, Source};

use crate::{known, run_of};

const OWN: &str = "listen {{ listen }}; server {{ origins[0] }};\n";
const SCENARIO: &str = "name: x\ngateways: [nginx, { name: mine, driver: nginx, config: ./my.conf }]\n\
                        loads: { full: { model: closed } }\n";

fn read_in(folder: &Path, overrides: &Overrides) -> Result<Checked, LabError> {
    let path = folder.join("scenario.yaml");
    std::fs::write(&path, SCENARIO).unwrap();
    weir_lab::read(&Source::find(path.to_str().unwrap()).unwrap(), overrides, &known())
}

#[test]
fn a_file_is_found_relative_to_its_scenario() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.conf"), OWN).unwrap();
    let checked = read_in(folder.path(), &Overrides::default()).unwrap();
    assert_eq!(checked.configurations.keys().collect::<Vec<_>>(), ["mine"]);
    let mine = &checked.configurations["mine"];
    assert_eq!((mine.text.as_str(), mine.sha256.len()), (OWN, 64));
    assert_eq!(Path::new(&mine.path), folder.path().join("my.conf"));
}

#[test]
fn a_missing_file_is_located_in_the_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let error = read_in(folder.path(), &Overrides::default()).unwrap_err();
    let reported = error.to_string();
    assert!(
        reported.contains("scenario.yaml:2:56: ") && reported.contains("my.conf: No such file"),
        "{reported}"
    );
    assert!(error.remedy().contains("relative to the scenario's folder"), "{}", error.remedy());
    assert!(error.is_wrong_use());
    // The configuration file is missing, but its gateway is not selected.
    let overrides = Overrides { gateways: vec!["nginx".into()], ..Overrides::default() };
    assert!(read_in(folder.path(), &overrides).unwrap().configurations.is_empty());
}

#[test]
fn the_command_line_can_replace_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.conf");
    std::fs::write(&other, "other").unwrap();
    let set = format!("gateways.mine.config={}", other.display());
    let overrides = Overrides { set: vec![set], ..Overrides::default() };
    assert_eq!(read_in(folder.path(), &overrides).unwrap().configurations["mine"].text, "other");
    let overrides = Overrides { set: vec!["gateways.mine.config=absent".into()], ..Overrides::default() };
    let reported = read_in(folder.path(), &overrides).unwrap_err().to_string();
    assert!(reported.starts_with("--set gateways.mine.config=absent: "), "{reported}");
}

#[test]
fn a_resumed_run_uses_the_stored_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.conf");
    std::fs::write(&path, OWN).unwrap();
    let checked = read_in(folder.path(), &Overrides::default()).unwrap();
    let run = run_of(&checked, 1);
    std::fs::write(&path, "changed").unwrap();
    assert_eq!(weir_lab::read_again(&run, None, &known()).unwrap(), checked);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(weir_lab::read_again(&run, None, &known()).unwrap(), checked);
}
