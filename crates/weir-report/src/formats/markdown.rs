//! The report as Markdown, for repositories and tickets.

use crate::charts::pictures::{Picture, Shows};
use crate::model::{Entry, Fact, Report, Table, legend};
use crate::pages::compare::Report as Comparison;

/// Draws the report. `pictures` are files in the same folder.
pub(crate) fn draw(report: &Report, pictures: &[Picture]) -> String {
    let of = |shows| pictures.iter().filter(move |picture| picture.shows == shows).map(image);
    let mut out = vec![
        format!("# {}", text(&report.title)),
        text(&report.question),
        format!("Run `{}`. {}", report.run_id, inline(&report.facts)),
        format!("**{}.**", text(&report.verdict.headline)),
        list(&report.verdict.details),
    ];
    out.extend(of(Shows::Headlines));
    out.push("## At a glance".into());
    for table in &report.glances {
        if !table.caption.is_empty() {
            out.push(format!("**{}**", text(&table.caption)));
        }
        out.push(draw_table(table));
    }
    let marks = [
        "Brackets contain 95 % confidence intervals over repeats.",
        "Values in parentheses are invalid; the table of all loads gives the reason.",
        "\\*: fewer than three valid repeats, so no headline.",
    ];
    let drawn = report.tables().chain([&report.cells]);
    out.push(legend(drawn.flat_map(|table| &table.rows).flatten(), marks));
    for section in &report.sections {
        out.push(format!("## {}", text(&section.title)));
        out.push(text(&section.intro));
        out.push(list(&section.conclusions));
        for table in &section.tables {
            out.push(format!("### {}", text(&table.caption)));
            out.push(draw_table(table));
        }
    }
    if pictures.iter().any(|picture| picture.shows == Shows::Axes) {
        out.push("## Results by axis".into());
        out.extend(of(Shows::Axes));
    }
    for (at, point) in report.points.iter().enumerate() {
        out.push(format!("## {}: {}", text(&point.load), text(&point.setting)));
        out.push(text(&point.purpose));
        out.push(list(&point.conclusions));
        for table in point.tables.iter().chain(&point.folded) {
            out.push(format!("### {}", text(&table.caption)));
            out.push(draw_table(table));
        }
        out.extend(folded(of(Shows::Point(at))));
    }
    if let Some(objective) = &report.objective {
        out.push("## Objective".into());
        out.push(draw_table(objective));
    }
    out.extend(failed(report));
    if !report.unequal.is_empty() {
        out.push("## Differences between gateways".into());
        out.push(facts(&report.unequal.facts));
        for file in &report.unequal.files {
            out.push(format!("**{}**", text(&file.title)));
            out.push(indented(&file.lines));
        }
    }
    out.push("## All loads of all cells".into());
    out.push(draw_table(&report.cells));
    out.push("## Inventory".into());
    out.push(draw_table(&report.inventory));
    out.push("## Manifest".into());
    out.push(facts(&report.manifest));
    out.push("## How to read it".into());
    out.push(facts(&report.reading));
    out.retain(|block| !block.is_empty());
    out.join("\n\n") + "\n"
}

/// Draws a comparison for a pull request. Long parts are folded.
pub(crate) fn draw_comparison(report: &Comparison) -> String {
    let mut out = vec![
        format!("## {}", text(&report.title)),
        format!("**{}.**", text(&report.verdict.headline)),
        list(&report.verdict.details),
        facts(&report.sides),
        draw_table(&report.judged),
        list(&report.notes),
    ];
    let mut more = Vec::new();
    for table in report.differences.iter().chain([&report.others]).filter(|table| !table.rows.is_empty()) {
        more.push(format!("**{}**", text(&table.caption)));
        more.push(draw_table(table));
    }
    if !report.unmatched.is_empty() {
        more.push("**Not compared**".into());
        more.push(list(&report.unmatched));
    }
    more.push("**How to read it**".into());
    more.push(facts(&report.reading));
    out.push(format!("<details><summary>More</summary>\n\n{}\n\n</details>", more.join("\n\n")));
    out.retain(|block| !block.is_empty());
    out.join("\n\n") + "\n"
}

fn image(picture: &Picture) -> String {
    format!("![{}]({})", text(&picture.title), picture.path)
}

/// Pictures that are folded under the heading "Charts"; `None` without pictures.
fn folded(images: impl Iterator<Item = String>) -> Option<String> {
    let images: Vec<String> = images.collect();
    let images = images.join("\n\n");
    (!images.is_empty()).then(|| format!("<details><summary>Charts</summary>\n\n{images}\n\n</details>"))
}

fn failed(report: &Report) -> Vec<String> {
    if report.failed.is_empty() {
        return Vec::new();
    }
    let mut out = vec!["## Failed cells".to_owned()];
    for failed in &report.failed {
        out.push(format!("**{}**: {}: {}", text(&failed.cell), text(&failed.cause), text(&failed.message)));
        out.push(format!("Remedy: {}", text(&failed.remedy)));
        if !failed.log_tail.is_empty() {
            out.push(indented(&failed.log_tail.lines().collect::<Vec<_>>()));
        }
    }
    out
}

/// Indents lines to form a code block. A fenced block would end early if a line contains a fence.
fn indented(lines: &[impl std::fmt::Display]) -> String {
    lines.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn draw_table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let mut lines = vec![
        line(table.columns.iter().map(|column| cell_text(&column.title)).collect()),
        line(
            table
                .columns
                .iter()
                .map(|column| if column.numeric { "--:" } else { "---" }.to_owned())
                .collect(),
        ),
    ];
    lines.extend(table.rows.iter().map(|row| line(row.iter().map(cell).collect())));
    lines.join("\n")
}

fn cell(entry: &Entry) -> String {
    let mut parts = vec![cell_text(&entry.plain())];
    if let Some(under) = &entry.under {
        parts.push(format!("[{under}]"));
    }
    parts.push(cell_text(&entry.plain_chips()));
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

fn list(items: &[String]) -> String {
    items.iter().map(|item| format!("- {}", text(item))).collect::<Vec<_>>().join("\n")
}

fn facts(facts: &[Fact]) -> String {
    facts
        .iter()
        .map(|fact| format!("- **{}**: {}", text(&fact.name), text(&fact.text)))
        .collect::<Vec<_>>()
        .join("\n")
}

fn inline(facts: &[Fact]) -> String {
    let said: Vec<String> =
        facts.iter().map(|fact| format!("{}: {}", text(&fact.name), text(&fact.text))).collect();
    format!("{}.", said.join(", "))
}

/// Escapes characters that Markdown interprets. Parts in backticks remain code.
fn text(text: &str) -> String {
    converted(text, "|")
}

/// Like [`text`], for the cell of a table, which a bar would end even within code.
fn cell_text(text: &str) -> String {
    converted(text, "\\|")
}

fn converted(text: &str, bar_in_code: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((plain, quoted)) = rest.split_once('`')
        && let Some((code, after)) = quoted.split_once('`')
        && !code.is_empty()
    {
        let code = code.replace(['\n', '\r'], " ").replace('|', bar_in_code);
        out.push_str(&format!("{}`{code}`", escaped(plain)));
        rest = after;
    }
    out + &escaped(rest)
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' => out.push(' '),
            '|' | '*' | '_' | '`' | '<' | '[' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_no_markup() {
        assert_eq!(text("a|b <c> _d_\nnext"), "a\\|b \\<c> \\_d\\_ next");
        assert_eq!(text("run `weir a_b|c`, ` or *"), "run `weir a_b|c`, \\` or \\*");
        assert_eq!(cell_text("run `weir a_b|c`"), "run `weir a_b\\|c`");
    }
}
