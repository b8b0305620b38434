//! Lists the differences between gateways: settings that weir could not make equal, and, for gateways with the same
//! driver, the lines in which their configuration files differ.

use serde::Serialize;
use serde_json::Value;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices};
use weir_analysis::Summary;
use weir_results::{Cell, FileKind, KeptFile, Run};

use crate::model::Fact;

/// Maximum number of lines of the diff of one file.
const LINES_MAX: usize = 40;
/// Number of unchanged lines that are shown around a change.
const CONTEXT: usize = 1;
/// Text that replaces an address which weir chose for a cell.
const ADDRESS: &str = "ADDRESS";
const CELL: &str = "/cell-";

/// Differences between the gateways of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Unequal {
    /// Differences that weir could not remove, each with the names of the gateways to which it applies.
    pub(crate) facts: Vec<Fact>,
    /// Diffs of configuration files of gateways with the same driver.
    pub(crate) files: Vec<FileDifference>,
}

/// How a configuration file differs between two gateways.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FileDifference {
    /// The file and the two gateways, like `gateway/nginx.conf: old (-) and new (+)`.
    pub(crate) title: String,
    /// Changed lines, which begin with `-` or `+`, and a few lines around them.
    pub(crate) lines: Vec<String>,
}

impl Unequal {
    pub(crate) fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.files.is_empty()
    }
}

/// Collects the differences between the gateways of a run.
pub(crate) fn unequal(run: &Run, cells: &[Cell], summary: &Summary) -> Unequal {
    let of_gateways = summary.gateways.iter().map(|gateway| (gateway.name.as_str(), &gateway.unequal[..]));
    let mut unequal = Unequal { facts: by_gateways(&of_gateways.collect::<Vec<_>>()), files: Vec::new() };
    let mut seen: Vec<(String, &str)> = Vec::new();
    for gateway in &summary.gateways {
        let Some(driver) = driver(run, &gateway.name) else { continue };
        match seen.iter().find(|(known, _)| *known == driver) {
            Some((_, first)) => unequal.compare(cells, first, &gateway.name),
            None => seen.push((driver, &gateway.name)),
        }
    }
    unequal
}

/// Returns each line once, with the gateways to which it applies. Lines that apply to several gateways come first.
fn by_gateways(of: &[(&str, &[String])]) -> Vec<Fact> {
    let mut lines: Vec<(&String, Vec<&str>)> = Vec::new();
    for (name, line) in of.iter().flat_map(|(name, lines)| lines.iter().map(move |line| (*name, line))) {
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => lines.push((line, vec![name])),
        }
    }
    lines.sort_by_key(|(_, names)| std::cmp::Reverse(names.len().min(2)));
    lines.into_iter().map(|(line, names)| Fact::new(names.join(", "), line.clone())).collect()
}

/// The name of the gateway's driver: by default, the name of the gateway.
fn driver(run: &Run, name: &str) -> Option<String> {
    let mut listed = run.scenario.get("gateways")?.as_array()?.iter();
    let found = listed.find(|gateway| {
        gateway.as_str() == Some(name) || gateway.get("name").and_then(Value::as_str) == Some(name)
    })?;
    Some(found.get("driver").and_then(Value::as_str).unwrap_or(name).to_owned())
}

impl Unequal {
    /// Adds the diffs of the configuration files of gateways `old` and `new`, which have the same driver.
    fn compare(&mut self, cells: &[Cell], old: &str, new: &str) {
        let Some([of_old, of_new]) = alike(cells, old, new) else { return };
        let names: Vec<&str> =
            configuration(of_old).chain(configuration(of_new)).map(|file| &*file.name).collect();
        let mut is_equal = true;
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                continue;
            }
            let lines = |cell| {
                let file = configuration(cell).find(|file| file.name == *name);
                file.map(|file| file.text.lines().map(masked).collect::<Vec<String>>()).unwrap_or_default()
            };
            let lines = difference(&lines(of_old), &lines(of_new));
            if !lines.is_empty() {
                is_equal = false;
                self.files.push(FileDifference { title: format!("{name}: {old} (-) and {new} (+)"), lines });
            }
        }
        if is_equal && !names.is_empty() {
            self.facts.push(Fact::new(format!("{old}, {new}"), "same configuration files"));
        }
    }
}

/// Finds two cells with the same axis values: one of gateway `old`, one of gateway `new`.
fn alike<'a>(cells: &'a [Cell], old: &str, new: &str) -> Option<[&'a Cell; 2]> {
    let has_files = |cell: &&Cell| configuration(cell).next().is_some();
    cells.iter().filter(|cell| cell.key.gateway == old).filter(has_files).find_map(|one| {
        let mut others = cells.iter().filter(|cell| cell.key.gateway == new).filter(has_files);
        Some([one, others.find(|other| other.key.axes == one.key.axes)?])
    })
}

fn configuration(cell: &Cell) -> impl Iterator<Item = &KeptFile> {
    cell.files.iter().filter(|file| file.kind == FileKind::Configuration)
}

/// The lines in which two files differ, with `-` or `+` before them.
fn difference(old: &[String], new: &[String]) -> Vec<String> {
    let groups = similar::group_diff_ops(capture_diff_slices(Algorithm::Myers, old, new), CONTEXT);
    let mut lines = Vec::new();
    for (place, group) in groups.iter().filter(|group| group.iter().any(is_change)).enumerate() {
        if place > 0 {
            lines.push("  ..".to_owned());
        }
        for op in group {
            let (tag, of_old, of_new) = op.as_tag_tuple();
            if tag == DiffTag::Equal {
                lines.extend(old[of_old].iter().map(|line| format!("  {line}")));
                continue;
            }
            lines.extend(old[of_old].iter().map(|line| format!("- {line}")));
            lines.extend(new[of_new].iter().map(|line| format!("+ {line}")));
        }
    }
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("  .. {more} more lines; for the full files see the pages of both cells"));
    }
    lines
}

fn is_change(op: &DiffOp) -> bool {
    op.tag() != DiffTag::Equal
}

/// Replaces the parts of a line that differ from cell to cell: addresses and ports that weir chose, and the name of
/// the cell's folder.
fn masked(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let end = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        out.push_str(before);
        if out.ends_with(CELL) {
            out.push('N');
        } else if is_port(digits, &out) {
            let address = out
                .trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.' || letter == ':');
            if out[address.len()..].contains('.') {
                out.truncate(address.len());
            }
            out.push_str(ADDRESS);
        } else {
            out.push_str(digits);
        }
        rest = after;
    }
    out + rest
}

/// Whether `digits` are a port that weir chose: `before` ends with an address and a colon, or with `port_value: `
/// (Envoy).
fn is_port(digits: &str, before: &str) -> bool {
    let behind_address = before.strip_suffix(':').is_some_and(|host| {
        host.ends_with(|letter: char| letter.is_ascii_digit() || letter == ']' || letter == '*')
            || host.ends_with("localhost")
    });
    (4..=5).contains(&digits.len()) && (behind_address || before.ends_with("port_value: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_gateways_are_printed_once() {
        let lines = |of: &[&str]| of.iter().map(|line| (*line).to_owned()).collect::<Vec<String>>();
        let (old, new, other) =
            (lines(&["a", "b", "only old"]), lines(&["b", "only new", "a"]), lines(&["c"]));
        let facts = by_gateways(&[("old", &old), ("envoy", &other), ("new", &new)]);
        let facts: Vec<(&str, &str)> = facts.iter().map(|fact| (&*fact.name, &*fact.text)).collect();
        let expected =
            [("old, new", "a"), ("old, new", "b"), ("old", "only old"), ("envoy", "c"), ("new", "only new")];
        assert_eq!(facts, expected);
    }

    #[test]
    fn addresses_and_ports_of_a_cell_are_masked() {
        let check = |line: &str, expected: &str| assert_eq!(masked(line), expected);
        check("listen 127.0.0.1:20417 reuseport;", "listen ADDRESS reuseport;");
        check("server a 10.7.0.2:8080 check", "server a ADDRESS check");
        check("address: \"[::1]:20417\"", "address: \"[::1]:ADDRESS\"");
        check("port_value: 20417", "port_value: ADDRESS");
        check("pid /tmp/weir-1/cell-12/gateway/nginx.pid;", "pid /tmp/weir-1/cell-N/gateway/nginx.pid;");
        check("worker_connections 10240;", "worker_connections 10240;");
        check("timeout: 10000ms", "timeout: 10000ms");
        check("keepalive_requests 1000; # 12", "keepalive_requests 1000; # 12");
    }

    #[test]
    fn a_diff_has_changed_lines_and_one_line_around_them() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
        let check = |old: &str, new: &str, expected: &[&str]| {
            assert_eq!(difference(&lines(old), &lines(new)), expected);
        };
        check("a b c", "a b c", &[]);
        check("a b c d e", "a b x d e", &["  b", "- c", "+ x", "  d"]);
        check("a b c d e f g", "x b c d e f", &["- a", "+ x", "  b", "  ..", "  f", "- g"]);
        let long: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let shown = difference(&[], &long);
        assert_eq!((shown.len(), &*shown[0]), (LINES_MAX + 1, "+ 0"));
        assert!(shown[LINES_MAX].contains("60 more lines"));
    }
}
