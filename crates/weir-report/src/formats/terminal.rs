//! Draws the report for a terminal. Tables are fitted to the width of the terminal.

use comfy_table::{
    Attribute, Cell as TableCell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table as Drawn,
    TableComponent, Width,
};

use weir_results::last_words;

use crate::model::{Entry, KEEP, PointReport, Report, Table, Tone, legend};
use crate::pages::compare::Report as Comparison;
use crate::sections::foreign::escaped;

/// If a run has more load points than this, the terminal does not show them. The report files do.
const POINTS_MAX: usize = 4;

/// A table with more rows than this is not shown on the terminal. The report files show it.
const ROWS_MAX: usize = 60;

/// Draws the report.
pub(crate) fn draw(report: &Report, width: usize, color: bool) -> String {
    let paint = Paint { color };
    let mut out = vec![
        format!("{}  {}", paint.bold(&report.title), paint.dim(&report.run_id)),
        wrap(&report.question, width, ""),
        String::new(),
        paint.tone(report.verdict.tone, &wrap(&report.verdict.headline, width, "")),
    ];
    out.extend(report.verdict.details.iter().map(|detail| bullet(detail, width)));
    let is_short = report.points.len() <= POINTS_MAX;
    let has_glances = is_short || report.sections.is_empty();
    if has_glances {
        for glance in &report.glances {
            out.push(String::new());
            out.extend((!glance.caption.is_empty()).then(|| paint.bold(&glance.caption)));
            out.push(draw_table(glance, width, color));
        }
    }
    for section in &report.sections {
        out.push(String::new());
        out.push(paint.bold(&section.title));
        for table in &section.tables {
            out.push(String::new());
            out.extend((section.tables.len() > 1).then(|| paint.dim(&wrap(&table.caption, width, ""))));
            let rows = table.rows.len();
            out.push(match rows <= ROWS_MAX {
                true => draw_table(table, width, color),
                false => {
                    let words = format!(
                        "The table has {rows} rows and is not shown here; see report.html or report.md."
                    );
                    wrap(&words, width, "")
                }
            });
        }
        if !section.conclusions.is_empty() {
            out.push(String::new());
            out.extend(section.conclusions.iter().map(|sentence| bullet(sentence, width)));
        }
    }
    if is_short {
        out.extend(report.points.iter().flat_map(|point| point_lines(point, width, color)));
    } else {
        let points = report.points.len();
        out.push(String::new());
        let words = format!("{points} load points are not shown here; see report.html or report.md.");
        out.push(wrap(&words, width, ""));
    }
    if !report.failed.is_empty() {
        out.push(String::new());
        out.push(paint.bold("Failed cells"));
        for failed in &report.failed {
            out.push(bullet(&format!("{}: {}: {}", failed.cell, failed.cause, failed.message), width));
            out.push(wrap(&format!("    help: {}", failed.remedy), width, "          "));
            if let Some(line) = last_words(&failed.log_tail) {
                out.push(wrap(&format!("    last log line: {line}"), width, "          "));
            }
        }
    }
    if !report.unequal.is_empty() {
        out.push(String::new());
        out.push(paint.bold("Differences between gateways"));
        let facts = report.unequal.facts.iter();
        out.extend(facts.map(|fact| bullet(&format!("{}: {}", fact.name, fact.text), width)));
        for file in &report.unequal.files {
            out.push(bullet(&file.title, width));
            out.extend(file.lines.iter().map(|line| format!("      {line}")));
        }
    }
    out.push(String::new());
    let marks = [
        "The second line in a cell is the 95 % confidence interval over repeats.",
        "Values in parentheses are invalid; report.html gives the reason.",
        "*: fewer than three valid repeats, so no headline.",
    ];
    let of_sections = report.sections.iter().flat_map(|section| &section.tables);
    let of_points = report.points.iter().filter(|_| is_short).flat_map(main_tables);
    let drawn = report.glances.iter().filter(|_| has_glances);
    let drawn = drawn.chain(of_sections.filter(|table| table.rows.len() <= ROWS_MAX)).chain(of_points);
    let drawn = drawn.flat_map(|table| {
        let (kept, _) = fitted(table, width, color);
        table.rows.iter().flat_map(move |row| kept.clone().into_iter().map(|column| &row[column]))
    });
    let legend = legend(drawn, marks);
    if !legend.is_empty() {
        out.push(paint.dim(&wrap(&legend, width, "")));
        out.push(String::new());
    }
    out.join("\n")
}

/// Draws the comparison of two datasets.
pub(crate) fn draw_comparison(report: &Comparison, width: usize, color: bool) -> String {
    let paint = Paint { color };
    let mut out = vec![paint.bold(&wrap(&report.title, width, ""))];
    out.extend(
        report.sides.iter().map(|side| wrap(&format!("  {}  {}", side.name, side.text), width, "     ")),
    );
    out.push(String::new());
    out.push(paint.tone(report.verdict.tone, &wrap(&report.verdict.headline, width, "")));
    out.extend(report.verdict.details.iter().map(|detail| bullet(detail, width)));
    let tables = std::iter::once(&report.judged).chain(&report.differences);
    for table in tables.filter(|table| !table.rows.is_empty()) {
        out.push(String::new());
        out.push(paint.bold(&table.caption));
        out.push(draw_table(table, width, color));
    }
    if !report.unmatched.is_empty() {
        out.push(String::new());
        out.push(paint.bold("Not compared"));
        out.extend(report.unmatched.iter().map(|line| bullet(line, width)));
    }
    out.push(String::new());
    out.extend(report.notes.iter().map(|note| paint.dim(&bullet(note, width))));
    if !report.others.rows.is_empty() {
        let where_else = "--markdown, --html and --json also list the metrics that get no verdict.";
        out.push(paint.dim(&bullet(where_else, width)));
    }
    out.join("\n")
}

/// A load point with its main tables and its conclusions.
fn point_lines(point: &PointReport, width: usize, color: bool) -> Vec<String> {
    let mut out = vec![String::new()];
    out.push(format!("{}  {}", Paint { color }.bold(&point.load), escaped(&point.setting)));
    for table in main_tables(point) {
        out.push(String::new());
        out.push(draw_table(table, width, color));
    }
    out.push(String::new());
    out.extend(point.conclusions.iter().map(|sentence| bullet(sentence, width)));
    out
}

/// The tables of a load point that the terminal shows.
fn main_tables(point: &PointReport) -> impl Iterator<Item = &Table> {
    point.tables.iter().take(if point.open { 2 } else { 1 })
}

/// Draws a table without the columns that do not fit. The texts of prose columns follow as a list below the table.
pub(crate) fn draw_table(table: &Table, width: usize, color: bool) -> String {
    let mut drawn = vec![draw_columns(table, width, color)];
    for column in (0..table.columns.len()).filter(|column| table.columns[*column].prose) {
        drawn.push(String::new());
        drawn.extend(sentences(table, column).iter().map(|sentence| bullet(sentence, width)));
    }
    drawn.join("\n")
}

/// The load points to which a sentence applies, each with the affected metrics.
type Points<'a> = Vec<(&'a str, Vec<&'a str>)>;

/// The sentences of a column. Each is listed once, with all load points and metrics to which it applies.
fn sentences(table: &Table, column: usize) -> Vec<String> {
    let mut said: Vec<(&str, Points<'_>)> = Vec::new();
    for entry in table.rows.iter().map(|row| &row[column]).filter(|entry| !entry.text.is_empty()) {
        let known = entry.of.as_ref().and_then(|_| said.iter().position(|(text, _)| *text == entry.text));
        let at = known.unwrap_or_else(|| {
            said.push((&entry.text, Vec::new()));
            said.len() - 1
        });
        let points = &mut said[at].1;
        match (&entry.of, points.last_mut()) {
            (Some(of), Some((point, figures))) if *point == of.name => figures.push(&of.text),
            (Some(of), _) => points.push((&of.name, vec![&of.text])),
            (None, _) => {}
        }
    }
    let words = |(text, points): (&str, Points<'_>)| {
        let of = points.iter().map(|(point, figures)| format!("{point} ({})", figures.join(", ")));
        match of.collect::<Vec<_>>().join("; ") {
            of if of.is_empty() => text.to_owned(),
            of => format!("{of}: {text}"),
        }
    };
    said.into_iter().map(words).collect()
}

fn draw_columns(table: &Table, width: usize, color: bool) -> String {
    let (_, drawn) = fitted(table, width, color);
    trimmed(&drawn.to_string())
}

/// The columns that fit the width, with those that are always shown, and the table with these columns.
fn fitted(table: &Table, width: usize, color: bool) -> (Vec<usize>, Drawn) {
    let mut kept: Vec<usize> =
        (0..table.columns.len()).filter(|column| !table.columns[*column].prose).collect();
    loop {
        let drawn = arrange(table, &kept, color, None);
        if widest(&drawn) <= width {
            return (kept, drawn);
        }
        let droppable = kept.iter().copied().filter(|column| table.columns[*column].keep < KEEP);
        let Some(least) = droppable.min_by_key(|column| (table.columns[*column].keep, usize::MAX - *column))
        else {
            let drawn = arrange(table, &kept, color, Some(width));
            return (kept, drawn);
        };
        kept.retain(|column| *column != least);
    }
}

fn arrange(table: &Table, kept: &[usize], color: bool, width: Option<usize>) -> Drawn {
    let mut drawn = Drawn::new();
    drawn.load_preset(comfy_table::presets::NOTHING);
    drawn
        .set_style(TableComponent::HeaderLines, '─')
        .set_style(TableComponent::MiddleHeaderIntersections, '─');
    if color {
        drawn.enforce_styling();
    } else {
        drawn.force_no_tty();
    }
    match width {
        Some(width) => {
            drawn.set_content_arrangement(ContentArrangement::Dynamic);
            drawn.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        }
        None => {
            drawn.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    let alignment = |column: usize| {
        if table.columns[column].numeric { CellAlignment::Right } else { CellAlignment::Left }
    };
    let header = kept.iter().map(|column| {
        TableCell::new(escaped(&table.columns[*column].title))
            .set_alignment(alignment(*column))
            .add_attribute(Attribute::Bold)
    });
    drawn.set_header(header);
    for row in &table.rows {
        drawn.add_row(kept.iter().map(|column| cell(&row[*column]).set_alignment(alignment(*column))));
    }
    if let Some(width) = width {
        keep_words_whole(&mut drawn, table, kept, width);
    }
    drawn
}

/// Makes each column at least as wide as its longest word, if the terminal is wide enough.
fn keep_words_whole(drawn: &mut Drawn, table: &Table, kept: &[usize], width: usize) {
    // One blank on each side of the text.
    const PADDING: usize = 2;
    let words = |column: usize| {
        let texts =
            table.rows.iter().map(|row| content(&row[column])).chain([table.columns[column].title.clone()]);
        texts
            .flat_map(|text| text.split_whitespace().map(|word| word.chars().count()).max())
            .max()
            .unwrap_or(0)
    };
    let least: Vec<usize> = kept.iter().map(|column| words(*column) + PADDING).collect();
    if least.iter().sum::<usize>() > width {
        return;
    }
    for (column, least) in drawn.column_iter_mut().zip(least) {
        let least = u16::try_from(least).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
    }
}

/// The content of a table cell: text, chips and interval, each on its own line.
fn content(entry: &Entry) -> String {
    let mut text = entry.plain();
    // A line break after the colon keeps the column narrow.
    let chips = entry.chips.iter().map(|chip| chip.text.replace(": ", ":\n ")).collect::<Vec<_>>().join("\n");
    if !chips.is_empty() {
        text = if text.is_empty() { chips } else { format!("{text}\n{chips}") };
    }
    if let Some(under) = &entry.under {
        text = format!("{text}\n{under}");
    }
    escaped(&text).into_owned()
}

fn cell(entry: &Entry) -> TableCell {
    let cell = TableCell::new(content(entry));
    let bad = entry.chips.iter().any(|chip| chip.tone == Tone::Bad);
    if bad {
        cell.fg(Color::Red)
    } else if entry.invalid {
        cell.add_attribute(Attribute::Dim)
    } else {
        cell
    }
}

fn widest(drawn: &Drawn) -> usize {
    drawn.lines().map(|line| visible_width(&line)).max().unwrap_or(0)
}

/// The number of columns that a line fills on the terminal, without escape sequences and trailing blanks.
fn visible_width(line: &str) -> usize {
    let mut width = 0;
    let mut filled = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            characters.by_ref().find(|c| c.is_ascii_alphabetic());
            continue;
        }
        width += 1;
        if character != ' ' {
            filled = width;
        }
    }
    filled
}

fn trimmed(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

pub(crate) fn bullet(text: &str, width: usize) -> String {
    wrap(&format!("  • {text}"), width, "    ")
}

/// Breaks text into lines at blanks. Each line after the first begins with `indent`. Control characters are
/// escaped.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let text = &*escaped(text);
    let mut lines: Vec<String> = Vec::new();
    let leading = text.len() - text.trim_start().len();
    let mut line = text[..leading].to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let length = line.chars().count() + word.chars().count() + usize::from(!empty);
        if !empty && length > width.max(20) {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

/// Adds colours and styles if the terminal supports them.
struct Paint {
    color: bool,
}

impl Paint {
    fn wrapped(&self, code: &str, text: &str) -> String {
        let text = escaped(text);
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.into_owned() }
    }

    fn bold(&self, text: &str) -> String {
        self.wrapped("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.wrapped("2", text)
    }

    fn tone(&self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Good => self.wrapped("1;32", text),
            Tone::Bad => self.wrapped("1;31", text),
            Tone::Plain => self.wrapped("1", text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_at_blanks() {
        assert_eq!(
            wrap("  • one two three four five six", 20, "    "),
            "  • one two three\n    four five six"
        );
        assert_eq!(wrap("", 20, ""), "");
    }

    #[test]
    fn escape_sequences_have_no_width() {
        assert_eq!(visible_width("\u{1b}[1mab\u{1b}[0m  "), 2);
    }
}
