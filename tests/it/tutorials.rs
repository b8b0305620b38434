//! The commands of README and of the tutorials, from top to bottom, as written. `weir run` also gets `--quick`, and the
//! quickstart `--gateway weir`. Exit codes 1 and 4 are accepted: on a busy host, objectives can be missed or undecided,
//! and `weir size` can have no answer.

use std::path::Path;
use std::process::Command;

use crate::pages::{Block, blocks};
use crate::program::{Host, finish, free_port, text, the_host};

/// A wrapper of `weir` that adds flags and accepts more exit codes.
const WEIR: &str = r#"#!/bin/bash
command=$1
case " $* " in
    *" --quick "* | *" --resume "* | *" --plan "*) ;;
    " run "*) set -- "$@" --quick ;;
esac
case " $* " in
    *" --gateway "*) ;;
    " run quickstart "*) set -- "$@" --gateway weir ;;
esac
# The page ends this process by its ID.
[ "$command" = origin ] && exec "$WEIR_TESTED" "$@"
"$WEIR_TESTED" "$@"
code=$?
case $command-$code in
    run-1 | run-4 | report-1 | report-4 | compare-4 | size-1) code=0 ;;
esac
exit $code
"#;

/// A reader's folder: `weir` in PATH, and the files that tutorials write.
struct Reader {
    folder: tempfile::TempDir,
    _host: Host,
}

impl Reader {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("weir"), WEIR).unwrap();
        std::fs::set_permissions(bin.join("weir"), std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, _host: the_host() }
    }

    /// Runs the lines of a block in `bash`, which stops at the first error. Returns standard output.
    fn types(&self, lines: &str) -> String {
        let tested = Path::new(env!("CARGO_BIN_EXE_weir"));
        let more = std::env::var("PATH").unwrap();
        let path =
            format!("{}/bin:{}:{more}", self.folder.path().display(), tested.parent().unwrap().display());
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", lines]).current_dir(self.folder.path());
        shell.env("PATH", path).env("WEIR_TESTED", tested);
        shell.env("XDG_DATA_HOME", self.folder.path().join("data"));
        shell.env("WEIR_STATE_DIR", self.folder.path().join("state"));
        let output = finish(shell);
        assert!(output.status.success(), "{lines}\n{}\n{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs the commands of a page from top to bottom, and returns what they printed.
    fn does(&self, blocks: &[Block]) -> String {
        let mut printed = String::new();
        for block in blocks {
            match block.language.as_str() {
                "sh" => printed += &self.types(&block.text),
                "yaml" => {
                    // The line before the block names the file, like "Write `rates.yaml`:".
                    let file =
                        block.before.split('`').find(|word| word.ends_with(".yaml") && !word.contains('/'));
                    if let Some(file) = file {
                        std::fs::write(self.folder.path().join(file), &block.text).unwrap();
                    }
                }
                _ => {}
            }
        }
        printed
    }

    fn has(&self, file: &str) {
        assert!(self.folder.path().join(file).exists(), "{file} was not written");
    }
}

impl Drop for Reader {
    /// Stops the background processes that a failed tutorial has left.
    fn drop(&mut self) {
        let end =
            "for file in *.pid; do [ -e \"$file\" ] && kill \"$(cat \"$file\")\" 2> kill.log; done; true";
        let _ = Command::new("bash").args(["-c", end]).current_dir(self.folder.path()).status();
    }
}

#[test]
fn the_first_report_is_written() {
    let reader = Reader::new();
    reader.does(&blocks("first-report.md"));
    reader.has("report/report.html");
}

#[test]
fn two_configurations_are_compared() {
    let reader = Reader::new();
    let printed = reader.does(&blocks("compare-two-configurations.md"));
    assert!(printed.contains("access_log"), "{printed}");
}

#[test]
fn the_number_of_instances_is_printed() {
    let reader = Reader::new();
    let printed = reader.does(&blocks("how-many-instances.md"));
    assert!(printed.contains("Instances"), "{printed}");
}

#[test]
fn the_gate_writes_test_results() {
    let reader = Reader::new();
    reader.does(&blocks("gate-in-ci.md"));
    reader.has("tests.xml");
}

#[test]
fn a_noisy_host_gets_a_report_with_a_positive_control() {
    let reader = Reader::new();
    let printed = reader.does(&blocks("noisy-hosts.md"));
    assert!(printed.contains("Positive control"), "{printed}");
}

#[test]
fn two_agents_send_load_together() {
    let reader = Reader::new();
    let printed = reader.does(&blocks("load-from-your-machines.md"));
    assert!(printed.contains("agent-1") && printed.contains("agent-2"), "{printed}");
}

#[test]
fn the_gateway_serves_an_application() {
    let mut page = blocks("gateway-in-front-of-an-application.md");
    for fixed in ["9000", "8443", "9901"] {
        let port = free_port().to_string();
        for block in &mut page {
            block.text = block.text.replace(fixed, &port);
        }
    }
    // One shell runs all commands, because the last step waits for a process that an earlier step starts.
    let commands: String =
        page.iter().filter(|block| block.language == "sh").map(|block| block.text.as_str()).collect();
    let printed = Reader::new().types(&commands);
    assert!(printed.contains("errors      none") && printed.contains("\nv2"), "{printed}");
    assert!(printed.contains("exit code 0"), "{printed}");
}

#[test]
fn the_commands_of_the_readme_work() {
    let page = blocks("../README.md");
    let commands = page.iter().find(|block| block.text.contains("weir doctor")).unwrap();
    let commands: String =
        commands.text.lines().filter(|line| line.starts_with("weir ")).fold(String::new(), |all, line| {
            let line = match line {
                _ if line.starts_with("weir doctor") => "weir doctor --quick",
                _ if line.starts_with("weir run quickstart") => {
                    "weir run quickstart --gateway weir --repeats 1"
                }
                _ => line,
            };
            all + line + "\n"
        });
    assert!(commands.lines().count() >= 6, "{commands}");
    let reader = Reader::new();
    reader.types(&commands);
    reader.has("run.csv");
}
