//! Builds Markdown: pages, tables, and the text in table cells.

/// A page with a title, an introduction and a body.
pub fn page(title: &str, introduction: &str, body: &str) -> String {
    format!("# {title}\n{introduction}\n\n{}\n", body.trim_end())
}

/// A table. Cells contain Markdown on one line; pipes in them are escaped.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head_line = line(head.iter().map(|&name| name.to_owned()).collect());
    let rows = rows.into_iter().map(|row| line(row.iter().map(|cell| in_cell(cell)).collect()));
    format!("{head_line}|{}\n{}", "---|".repeat(head.len()), rows.collect::<String>())
}

/// Converts plain text to Markdown. Characters outside of code spans are escaped if Markdown would interpret them.
pub fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => part.replace('<', "&lt;").replace('*', "\\*"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

/// Lists words as in `a, b or c`, each once.
pub(crate) fn listed(words: &[String]) -> String {
    let mut each: Vec<&str> = Vec::new();
    for word in words {
        if !each.contains(&word.as_str()) {
            each.push(word);
        }
    }
    match each.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => each.concat(),
    }
}

/// The anchor that GitHub and mdBook give to a heading with this title.
pub(crate) fn slug(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Joins the lines of a text to one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Joins two texts. Adds a full stop to the first one if it does not end with a punctuation mark.
pub(crate) fn sentences(first: &str, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second.to_owned(),
        (_, true) => first.to_owned(),
        _ if first.ends_with(['.', '!', '?', ':']) => format!("{first} {second}"),
        _ => format!("{first}. {second}"),
    }
}

fn in_cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_in_their_row() {
        let text = table(&["a", "b"], [vec!["1|2".to_owned(), "3\n4".to_owned()]]);
        assert_eq!(text, "| a | b |\n|---|---|\n| 1\\|2 | 3 4 |\n");
    }

    #[test]
    fn text_is_no_markup() {
        assert_eq!(prose("<RUN> and *.x, but `<RUN> *`"), "&lt;RUN> and \\*.x, but `<RUN> *`");
    }

    #[test]
    fn anchors_keep_letters() {
        assert_eq!(slug("`routes[].hosts_x` with `a: b`"), "routeshosts_x-with-a-b");
    }

    #[test]
    fn each_word_is_listed_once() {
        let words = |words: &[&str]| listed(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["a", "b", "a", "c"]), "a, b or c");
        assert_eq!((words(&["a", "a"]), words(&[])), ("a".to_owned(), String::new()));
    }
}
