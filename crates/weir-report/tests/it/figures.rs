//! Reads the charts from a page for the tests.

/// Returns all charts of a page, including charts of other loads and repeats, which the page hides at first.
pub(crate) fn figures(page: &str) -> Vec<&str> {
    page.split("<figure class=\"plot").skip(1).map(|rest| before(rest, "</figure>")).collect()
}

pub(crate) fn id(figure: &str) -> &str {
    before(figure.split_once(" id=\"").expect("an id").1, "\"")
}

pub(crate) fn figure<'a>(page: &'a str, wanted: &str) -> &'a str {
    figures(page).into_iter().find(|figure| id(figure) == wanted).unwrap_or_else(|| panic!("no {wanted}"))
}

/// The titles of the panels of a chart.
pub(crate) fn panels(figure: &str) -> Vec<&str> {
    figure.split("<h4>").skip(1).map(|rest| before(rest, "</h4>")).collect()
}

/// The names in the legend of a chart.
pub(crate) fn legend(figure: &str) -> Vec<&str> {
    let (_, list) = figure.split_once("<ul class=\"legend\">").unwrap_or_default();
    let entries = before(list, "</ul>").split("</i>").skip(1);
    entries.map(|rest| before(rest, "</li>")).collect()
}

/// The table of values of a chart. Its first row contains the headings.
pub(crate) fn table(figure: &str) -> Vec<Vec<&str>> {
    let (_, table) = figure.split_once("<details class=\"numbers\">").expect("a table of the values");
    let rows = before(table, "</table>").split("<tr>").skip(1);
    rows.map(|row| row.split("<t").filter_map(cell_text).collect()).collect()
}

/// The text of a table cell. `rest` is the text after `<t`. End tags are optional.
fn cell_text(rest: &str) -> Option<&str> {
    let (tag, text) = rest.split_once('>')?;
    tag.starts_with(['h', 'd']).then(|| before(text, "<"))
}

fn before<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or(text, |(before, _)| before)
}
