//! Tables over several load points: numbers of users at each CPU limit, and throughput as a share of the direct
//! baseline. Some table cells span several rows.

use weir_analysis::summarize;
use weir_results::{Cell, Run};

use crate::fixture::{Scene, run_with_users};

const USERS: [u32; 3] = [4, 8, 12];

fn sized(scene: Scene) -> (Run, Vec<Cell>) {
    run_with_users(scene, &[0.5, 1.0], &USERS)
}

fn markdown(scene: Scene) -> String {
    let (run, cells) = sized(scene);
    weir_report::markdown(&run, &cells, &summarize(&run, &cells))
}

/// The part of a report between the headings `from` and `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (start, end) = (text.find(from).expect(from), text.find(to).expect(to));
    text[start..end].trim_end()
}

#[test]
fn users_limits_and_shares_of_direct_as_markdown() {
    let text = markdown(Scene::Good);
    insta::assert_snapshot!(between(&text, "## Users at each limit", "## users-4: "));
}

#[test]
fn excluded_values_are_marked_and_not_in_sentences() {
    let text = markdown(Scene::Mixed);
    insta::assert_snapshot!(between(&text, "## Users at each limit", "### Share of direct"));
}

#[test]
fn a_sizing_run_on_a_narrow_terminal() {
    let (run, cells) = sized(Scene::Good);
    insta::assert_snapshot!(weir_report::terminal(&run, &cells, &summarize(&run, &cells), 80, false));
}

#[test]
fn no_line_of_a_sizing_run_is_wider_than_the_terminal() {
    for (scene, width) in [(Scene::Good, 80), (Scene::Mixed, 80), (Scene::Mixed, 100), (Scene::Single, 160)] {
        let (run, cells) = sized(scene);
        let text = weir_report::terminal(&run, &cells, &summarize(&run, &cells), width, false);
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
        }
    }
}

#[test]
fn merged_rows_keep_every_table_cell_of_a_page() {
    let (run, cells) = sized(Scene::Mixed);
    let page = weir_report::html(&run, &cells, &summarize(&run, &cells)).unwrap();
    let (mut tables, mut spans) = (0, 0);
    for table in page.split("<table ").skip(1) {
        let table = table.split("</table>").next().unwrap();
        let (head, body) = table.split_once("</thead>").unwrap();
        let columns = head.matches("<th ").count() + head.matches("<th>").count();
        // For each `rowspan` of an earlier row: the number of rows that it still covers.
        let mut below: Vec<usize> = Vec::new();
        for row in body.split("<tr>").skip(1) {
            below.retain(|rows| *rows > 0);
            below.iter_mut().for_each(|rows| *rows -= 1);
            let covered = below.len();
            let mut own = 0;
            for cell in row.split("<t").skip(1).filter(|cell| cell.starts_with(['d', 'h'])) {
                own += 1;
                let tag = cell.split('>').next().unwrap();
                if let Some(rows) = tag.split("rowspan=\"").nth(1) {
                    below.push(rows.split('"').next().unwrap().parse::<usize>().unwrap() - 1);
                    spans += 1;
                }
            }
            assert_eq!(own + covered, columns, "{row}");
        }
        assert!(below.iter().all(|rows| *rows == 0), "a span beyond the end of its table");
        tables += 1;
    }
    assert!(tables > 20 && spans > 40, "{tables} tables, {spans} spans");
}

#[test]
fn a_run_with_one_limit_and_one_number_of_users_has_no_such_tables() {
    let (run, cells) = run_with_users(Scene::Good, &[0.5], &[]);
    let text = weir_report::markdown(&run, &cells, &summarize(&run, &cells));
    for heading in
        ["## Users at each limit", "## Throughput per core", "## Throughput relative to the direct baseline"]
    {
        assert!(!text.contains(heading), "{heading}");
    }
}
