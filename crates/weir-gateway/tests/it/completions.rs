//! Completion scripts, as shells load them.

use std::process::Command;

/// The script for `shell`.
fn script(shell: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-gateway")).args(["completions", shell]).output();
    let output = output.expect("it starts");
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{shell}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_shell_gets_a_script_with_all_subcommands_and_flags() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = script(shell);
        for word in
            ["check", "explain", "reference", "schema", "completions", "runtime-dir", "admin-host", "strict"]
        {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    let unknown = Command::new(env!("CARGO_BIN_EXE_weir-gateway")).args(["completions", "tcsh"]).output();
    let unknown = unknown.expect("it starts");
    let messages = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(unknown.status.code() == Some(2) && messages.contains("possible values: bash"), "{messages}");
}

#[test]
fn bash_completes_by_its_script() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("script"), script("bash")).expect("a file");
    let check = |words: &str, index: u32, expected: &str| {
        let completed = format!(
            "source ./script; function=$(complete -p weir-gateway); function=${{function##*-F }}; \
             function=${{function%% *}}; COMP_WORDS=({words}); COMP_CWORD={index}; \
             $function weir-gateway \"${{COMP_WORDS[$COMP_CWORD]}}\" \"${{COMP_WORDS[$COMP_CWORD-1]}}\"; \
             echo \"${{COMPREPLY[*]}}\""
        );
        let output = Command::new("bash").current_dir(dir.path()).args(["--norc", "-c", &completed]).output();
        let output = output.expect("bash starts");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), expected, "{words}: {output:?}");
    };
    check("weir-gateway exp", 1, "explain");
    check("weir-gateway --run", 1, "--runtime-dir");
    check("weir-gateway check --st", 2, "--strict");
    check("weir-gateway completions z", 2, "zsh");
}
