//! The pages of docs/reference that `weir-gateway reference` prints.

use std::path::Path;
use std::process::Command;

use weir_control::FileSource;
use weir_dataplane::Gateway;

/// The pages: the argument that selects a page, and the file of the page.
const PAGES: [(&str, &str); 5] = [
    ("configuration", "gateway-configuration.md"),
    ("cli", "weir-gateway.md"),
    ("metrics", "gateway-metrics.md"),
    ("access-log", "access-log.md"),
    ("causes", "causes.md"),
];

fn printed(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_weir-gateway")).args(arguments).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The rows of all tables on a page, split into cells.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let inner = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    inner.map(|row| row.split(" | ").collect()).collect()
}

#[test]
fn the_pages_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (name, file) in PAGES {
        let page = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        assert!(
            page == printed(&["reference", name]),
            "docs/reference/{file} is outdated; run `make reference`"
        );
    }
    assert_eq!(printed(&["reference"]), printed(&["reference", "configuration"]));
}

#[test]
fn every_field_has_a_type_a_default_and_a_meaning() {
    let page = printed(&["reference", "configuration"]);
    let fields: Vec<Vec<&str>> = rows(&page).into_iter().filter(|row| row.len() > 3).collect();
    assert!(fields.len() > 80, "{page}");
    for row in fields {
        assert_eq!(row.len(), 5, "{row:?}");
        assert!(row[1] != "any value" && row[..4].iter().all(|cell| !cell.trim().is_empty()), "{row:?}");
    }
}

#[test]
fn every_command_argument_metric_variable_and_cause_has_a_meaning() {
    for name in ["cli", "metrics", "access-log", "causes"] {
        let page = printed(&["reference", name]);
        let rows = rows(&page);
        assert!(rows.len() > 10, "{page}");
        for row in rows {
            // The last column contains the meaning of the row's item.
            assert!(row.last().is_some_and(|cell| !cell.trim().is_empty()), "{name}: {row:?}");
        }
    }
}

#[test]
fn links_lead_to_sections_of_the_page() {
    let page = printed(&["reference"]);
    let slug = |title: &str| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    let slugs: Vec<String> = page.lines().filter_map(|line| line.strip_prefix("## ")).map(slug).collect();
    let links: Vec<&str> =
        page.split("](#").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).collect();
    assert!(links.len() > 20, "{links:?}");
    for link in links {
        assert_eq!(slugs.iter().filter(|slug| *slug == link).count(), 1, "{link}");
    }
}

#[test]
fn the_page_of_metrics_has_every_metric_of_a_running_gateway() {
    let page = printed(&["reference", "metrics"]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("gateway.yaml");
    std::fs::write(&path, "listeners: [{ address: 127.0.0.1:0 }]\nworkers: 1\n").expect("a file");
    let table = FileSource::new(path).load().expect("a valid configuration");
    let text = Gateway::start(table).expect("it starts").stats().prometheus();
    let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert!(types.len() > 10, "{text}");
    for (name, kind) in types.iter().filter_map(|line| line.split_once(' ')) {
        assert!(page.contains(&format!("\n| `{name}` | {kind} | ")), "{name} has no row");
    }
}
