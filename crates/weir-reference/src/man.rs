//! Man pages of a program, for inclusion in its packages.

use std::io;
use std::path::Path;

use clap::Command;

/// Writes the man pages `NAME.1` and `NAME-SUBCOMMAND.1` of `command` and its visible subcommands into `folder`.
/// Creates the folder if it is missing.
///
/// # Errors
/// If the folder cannot be created, or a file cannot be written.
pub fn man_pages(command: Command, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command, folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_commands_have_a_page() {
        let folder = std::env::temp_dir().join(format!("weir-man-{}", std::process::id()));
        let export = Command::new("export").about("Export a run").after_long_help("Exit codes:\n  0  done");
        let command = Command::new("weir").version("1").subcommand(export);
        man_pages(command.subcommand(Command::new("guard").hide(true)), &folder).unwrap();
        let pages = std::fs::read_dir(&folder).unwrap();
        let mut names: Vec<_> = pages.map(|page| page.unwrap().file_name()).collect();
        names.sort();
        let export = std::fs::read_to_string(folder.join("weir-export.1")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(names, ["weir-export.1", "weir.1"]);
        assert!(export.contains("Export a run") && export.contains("0  done"), "{export}");
    }
}
