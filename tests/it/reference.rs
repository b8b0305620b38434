//! The pages of docs/reference that `weir reference` prints.

use std::path::Path;

use crate::program::{finish, text, weir};

/// (Name of a page, file name).
const PAGES: [(&str, &str); 7] = [
    ("scenario", "scenario.md"),
    ("driver", "driver.md"),
    ("service", "service.md"),
    ("results", "results.md"),
    ("cli", "weir.md"),
    ("columns", "columns.md"),
    ("run-metrics", "run-metrics.md"),
];

fn printed(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = finish(weir(folder.path(), arguments));
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// All rows of the tables on a page, as lists of cells.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").collect()).collect()
}

#[test]
fn the_pages_match_the_printed_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (name, file) in PAGES {
        let page = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        let is_same = page == printed(&["reference", name]);
        assert!(is_same, "docs/reference/{file} is outdated; run `make reference`");
    }
    assert_eq!(printed(&["reference"]), printed(&["reference", "scenario"]));
}

#[test]
fn every_field_has_a_type_a_default_and_a_meaning() {
    for (name, fields_min) in [("scenario", 150), ("driver", 60), ("service", 15), ("results", 200)] {
        let page = printed(&["reference", name]);
        // Rows of fields have at least four cells. A fifth cell is an example, which may be empty. Rows with two cells
        // describe forms.
        let fields: Vec<Vec<&str>> = rows(&page).into_iter().filter(|row| row.len() > 3).collect();
        assert!(fields.len() > fields_min, "{name}: {}", fields.len());
        for row in fields {
            assert!(row[..4].iter().all(|cell| !cell.trim().is_empty()), "{name}: {row:?}");
        }
    }
}

#[test]
fn every_form_argument_column_and_metric_has_a_meaning() {
    for (name, _) in PAGES {
        let page = printed(&["reference", name]);
        // Checks rows with fewer than four cells. In longer rows, the last cell may be an example, which can be empty.
        // The page run-metrics has no examples, so all its rows are checked.
        let rows = rows(&page).into_iter().filter(|row| row.len() < 4 || name == "run-metrics");
        for row in rows {
            let is_meant = row.last().is_some_and(|cell| !cell.trim().is_empty());
            assert!(is_meant, "{name}: {row:?}");
        }
    }
}

#[test]
fn no_meaning_mentions_rust_types() {
    for (name, _) in PAGES {
        for row in rows(&printed(&["reference", name])) {
            let words = row.join(" ");
            let is_foreign = ["`None`", "`Some`", "::"].iter().any(|word| words.contains(word));
            // Links of rustdoc have no target on the page.
            let has_unlinked = words.split("`]").skip(1).any(|rest| !rest.starts_with('('));
            assert!(!is_foreign && !has_unlinked, "{name}: {row:?}");
        }
    }
}

#[test]
fn links_lead_to_sections_of_the_page() {
    let slug = |title: &str| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    for (name, links_min) in [("scenario", 40), ("driver", 15), ("service", 3), ("results", 40)] {
        let page = printed(&["reference", name]);
        let slugs: Vec<String> = page.lines().filter_map(|line| line.strip_prefix("## ")).map(slug).collect();
        let links: Vec<&str> =
            page.split("](#").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).collect();
        assert!(links.len() > links_min, "{name}: {links:?}");
        for link in links {
            assert_eq!(slugs.iter().filter(|slug| *slug == link).count(), 1, "{name}: {link}");
        }
    }
}
