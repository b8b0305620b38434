//! The table's columns are those that the documents describe.

const DOCUMENT: &str = include_str!("../../../../docs/export.md");

/// Names and kinds of the table under the heading `Columns`: a row may name several columns.
fn documented() -> Vec<(String, String)> {
    let section = DOCUMENT.split("\n## ").find(|section| section.starts_with("Columns")).expect("a section");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| {
        let fields: Vec<&str> = row.split('|').map(str::trim).collect();
        let kind = fields[2].to_owned();
        let names = fields[1].split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        names.into_iter().map(move |name| (name, kind.clone()))
    })
    .collect()
}

#[test]
fn every_column_is_documented_and_every_documented_column_is_there() {
    let mut code: Vec<(String, String)> =
        weir_export::columns().into_iter().map(|(name, kind)| (name, kind.name().to_owned())).collect();
    let behind = code.iter().position(|(name, _)| name == "repeat").expect("a column") + 1;
    code.insert(behind, ("axis.PATH".into(), "float or text".into()));
    assert_eq!(documented(), code);
}

#[test]
fn no_name_stands_twice() {
    let mut names: Vec<String> = weir_export::columns().into_iter().map(|(name, _)| name).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}
