//! Reads dashboards and alert rules from their files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// A dashboard.
pub struct Board {
    name: String,
    document: Value,
}

/// A query as Grafana sends it.
#[derive(Debug)]
pub struct Query {
    /// Where the query comes from, for messages: the dashboard, and its panel or variable.
    #[allow(dead_code, reason = "shown by Debug if a query returns nothing")]
    pub place: String,
    /// One expression per load. At least one must return data.
    pub expressions: Vec<String>,
    /// Whether it is an instant query.
    pub is_instant: bool,
}

/// All dashboards, after a check that each has the UID that provisioning needs.
pub fn boards(root: &Path) -> Vec<Board> {
    let mut boards = Vec::new();
    for entry in std::fs::read_dir(root.join("dashboards")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let document: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert_eq!(document["uid"], name, "the UID must be the name of the file, so that it is stable");
            boards.push(Board { name, document });
        }
    }
    assert_eq!(boards.len(), 3);
    boards
}

impl Board {
    /// The queries of variables and panels for the run `id`. Each query has one expression per load in `loads`, because
    /// some queries find only valid values, others only invalid ones, and these belong to different loads.
    pub fn queries(&self, id: &str, loads: [&str; 2]) -> Vec<Query> {
        let variables = self.document["templating"]["list"].as_array().unwrap();
        let put_all = |text: &str| loads.map(|load| put(text, &values(variables, id, load))).to_vec();
        let mut queries = Vec::new();
        for variable in variables.iter().filter(|variable| variable["type"] == "query") {
            assert_eq!(variable["datasource"]["uid"], "${datasource}", "{variable}");
            let of = variable["query"]["query"].as_str().unwrap();
            let inside = of.strip_prefix("label_values(").and_then(|of| of.strip_suffix(')')).unwrap();
            let (series, label) = inside.rsplit_once(", ").unwrap();
            let expression = format!("count by ({label}) (count_over_time({series}[15m]))");
            let place = format!("{}: variable {}", self.name, variable["name"]);
            queries.push(Query { place, expressions: put_all(&expression), is_instant: true });
        }
        for panel in self.document["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{panel}");
                let expressions = put_all(target["expr"].as_str().unwrap());
                let place = format!("{}: {}", self.name, panel["title"]);
                queries.push(Query { place, expressions, is_instant: target["instant"] == true });
            }
        }
        queries
    }
}

/// The value of each variable. For a variable that allows several values, it is the `allValue`.
fn values(variables: &[Value], id: &str, load: &str) -> BTreeMap<String, String> {
    let one =
        BTreeMap::from([("run", id), ("load", load), ("a", "weir"), ("b", "nginx"), ("job", "weir-gateway")]);
    let mut values = BTreeMap::from([
        ("__rate_interval".to_owned(), "4s".to_owned()),
        ("__range".to_owned(), "15m".to_owned()),
    ]);
    for variable in variables.iter().filter(|variable| variable["type"] == "query") {
        let name = variable["name"].as_str().unwrap();
        let value = variable["allValue"].as_str().unwrap_or_else(|| one[name]);
        values.insert(name.to_owned(), value.to_owned());
    }
    values
}

fn put(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    // Longer names are replaced first, because `$allowed` begins with `$a`.
    let mut names: Vec<&String> = values.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        text = text.replace(&format!("${name}"), &values[name]);
    }
    assert!(!text.contains('$'), "a variable without a value: {text}");
    text
}

/// Names and expressions of the rules in a file.
pub fn rules(text: &str) -> Vec<(String, String)> {
    let field = |line: &str, name: &str| {
        line.trim_start_matches([' ', '-']).strip_prefix(name).map(|value| value.trim().to_owned())
    };
    let names = text.lines().filter_map(|line| field(line, "alert:"));
    let expressions = text.lines().filter_map(|line| field(line, "expr:"));
    let rules: Vec<_> = names.zip(expressions).collect();
    assert!(!rules.is_empty());
    rules
}

/// Names of metrics in an expression.
pub fn metrics_of(expression: &str) -> BTreeSet<&str> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = expression.split(|c: char| !is_of_name(c));
    words.filter(|word| word.starts_with("weir_") || *word == "up").collect()
}

/// `metric{label="value",..}`.
pub fn selectors(metric: &str, labels: &BTreeMap<&str, String>, more: &str) -> String {
    let labels = labels.iter().map(|(name, value)| format!("{name}=\"{value}\""));
    let all: Vec<String> = labels.chain((!more.is_empty()).then(|| more.to_owned())).collect();
    format!("{metric}{{{}}}", all.join(","))
}
