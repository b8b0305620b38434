//! Runs the commands shown on pages of the docs, with the example of each page.

use std::process::Command;

const PAGES: [&str; 2] =
    [include_str!("../../../../docs/filters.md"), include_str!("../../../../docs/paths.md")];

/// The name and text of the page's first example. The first line of the example is a comment with its name.
fn example(page: &str) -> (&str, &str) {
    let (_, rest) = page.split_once("```yaml\n# ").expect("an example");
    let (text, _) = rest.split_once("```").expect("its end");
    text.split_once('\n').expect("its name")
}

#[test]
fn commands_print_what_the_pages_show() {
    let mut shown = Vec::new();
    for page in PAGES {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (name, text) = example(page);
        for block in page.split("```text\n$ weir-gateway ").skip(1) {
            let (command, rest) = block.split_once('\n').expect("its line");
            let (expected, _) = rest.split_once("```").expect("its end");
            let is_check = command.starts_with("check ");
            // docs/paths.md shows the output of `check` with this additional setting.
            let more = if is_check { "paths: { escaped_slashes: keep }\n" } else { "" };
            std::fs::write(dir.path().join(name), format!("# {name}\n{text}{more}")).expect("a file");
            let output = Command::new("sh")
                .current_dir(dir.path())
                .args(["-c", &format!("\"$0\" {command}"), env!("CARGO_BIN_EXE_weir-gateway")])
                .output()
                .expect("it starts");
            let printed = if is_check { output.stderr } else { output.stdout };
            assert_eq!(String::from_utf8_lossy(&printed), expected, "{command}");
            shown.push(command.split(' ').next().unwrap_or_default());
        }
    }
    assert_eq!(shown, ["explain", "explain", "check"]);
}
