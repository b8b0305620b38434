//! Prepares commands in messages so that users can paste them: quoted for a shell, and with the same `--db`.

use std::path::Path;
use std::sync::OnceLock;

/// Subcommands that accept `--db`.
const WITH_DATABASE: [&str; 8] = ["run", "report", "size", "runs", "compare", "doctor", "export", "import"];

/// The `--db` flag as the user passed it, with a space before it.
static DATABASE: OnceLock<String> = OnceLock::new();

/// Remembers the path that the user passed with `--db`.
pub(crate) fn remember_database(path: &Path) {
    let _ = DATABASE.set(format!(" --db {}", quoted(&path.to_string_lossy())));
}

/// Returns ` --db FILE` if the user passed `--db`, otherwise an empty string.
pub(crate) fn database_flag() -> &'static str {
    DATABASE.get().map_or("", String::as_str)
}

/// Adds the user's `--db` to each command in backticks in `text`, if the command accepts it.
pub(crate) fn with_database(text: &str) -> String {
    completed(text, database_flag())
}

fn completed(text: &str, flag: &str) -> String {
    let complete = |(place, piece): (usize, &str)| {
        let subcommand = piece.strip_prefix("weir ").and_then(|rest| rest.split_whitespace().next());
        let takes_one = place % 2 == 1
            && subcommand.is_some_and(|name| WITH_DATABASE.contains(&name))
            && !piece.contains(" --db ");
        if takes_one { format!("{piece}{flag}") } else { piece.to_owned() }
    };
    text.split('`').enumerate().map(complete).collect::<Vec<_>>().join("`")
}

/// Quotes a word for a POSIX shell, if it needs quotes.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_only_if_a_shell_needs_it() {
        for (word, expected) in [
            ("/tmp/weir.db", "/tmp/weir.db"),
            ("my runs.db", "'my runs.db'"),
            ("it's.db", r"'it'\''s.db'"),
            ("$HOME/`x`.db", "'$HOME/`x`.db'"),
            ("~/weir.db", "'~/weir.db'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn commands_in_backticks_get_the_database_once() {
        let check = |text: &str, expected: &str| assert_eq!(completed(text, " --db a.db"), expected);
        check("`weir runs` lists all", "`weir runs --db a.db` lists all");
        check("then `weir report 1 --db b.db`", "then `weir report 1 --db b.db`");
        check("`weir schema` and weir runs", "`weir schema` and weir runs");
        check(
            "`weir run a` or `weir doctor --quick`",
            "`weir run a --db a.db` or `weir doctor --quick --db a.db`",
        );
        assert_eq!(completed("`weir runs`", ""), "`weir runs`");
    }
}
