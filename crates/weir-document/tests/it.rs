//! Invalid documents with exact positions and remedies, and large documents.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weir_document::{Rate, Share, Size, Time, read};

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Doc {
    name: String,
    #[serde(default)]
    repeats: u32,
    #[serde(default)]
    duration: Option<Time>,
    #[serde(default)]
    loads: BTreeMap<String, Load>,
    #[serde(default)]
    routes: Vec<Route>,
    #[serde(default)]
    tls: bool,
    #[serde(default)]
    mode: Mode,
}

#[derive(Deserialize, Debug, Default, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    #[default]
    PlainText,
    Secure,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(tag = "model", rename_all = "lowercase", deny_unknown_fields)]
enum Load {
    Closed { connections: u32 },
    Open { rate: Rate },
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Route {
    path: String,
    backend: String,
}

#[track_caller]
fn check(source_name: &str, text: &str, place_and_cause: &str, remedy: &str) {
    let error = read::<Doc>(source_name, text).expect_err(text);
    assert_eq!((error.to_string().as_str(), error.remedy.as_str()), (place_and_cause, remedy), "{text:?}");
}

#[track_caller]
fn yaml(text: &str, place_and_cause: &str, remedy: &str) {
    check("a.yaml", text, &format!("a.yaml:{place_and_cause}"), remedy);
}

#[track_caller]
fn json(text: &str, place_and_cause: &str, remedy: &str) {
    check("a.json", text, &format!("a.json:{place_and_cause}"), remedy);
}

const TIME_FORMS: &str = "write a time with its unit, like 100us, 20ms, 1.5s, 2m";

#[test]
fn valid_documents_are_read() {
    let text = "name: a\nrepeats: 3\nduration: 20ms\ntls: true\nmode: secure\n\
                loads:\n  full: { model: closed, connections: 10 }\n  tail: { model: open, rate: 5000/s }\n";
    for source in ["a.yaml", "a", "stdin.txt"] {
        let doc: Doc = read(source, text).unwrap();
        assert_eq!((doc.name.as_str(), doc.repeats, doc.tls, doc.mode), ("a", 3, true, Mode::Secure));
        assert_eq!(doc.duration.unwrap().to_string(), "20ms");
        assert_eq!(doc.loads["full"], Load::Closed { connections: 10 });
        assert_eq!(doc.loads["tail"], Load::Open { rate: Rate(5000.0) });
    }
    let json = r#"{"name": "a", "repeats": 3, "loads": {"tail": {"model": "open", "rate": "5000/s"}}}"#;
    for source in ["a.yaml", "a.json", "-"] {
        let doc: Doc = read(source, json).unwrap();
        assert_eq!((doc.name.as_str(), doc.repeats, doc.loads.len()), ("a", 3, 1));
    }
}

#[test]
fn yaml_in_flow_style_is_not_parsed_as_json() {
    let doc: Doc = read("a.yaml", "{ name: a, repeats: 2, }").unwrap();
    assert_eq!((doc.name.as_str(), doc.repeats), ("a", 2));
    yaml("{ name: a, repeat: 1 }", "1:12: unknown field `repeat`", "did you mean `repeats`?");
}

#[test]
fn unknown_fields_and_values_are_rejected() {
    yaml("name: a\nduratoin: 10s\n", "2:1: unknown field `duratoin`", "did you mean `duration`?");
    yaml(
        "name: a\ncolour: 1\n",
        "2:1: unknown field `colour`",
        "valid names here: `name`, `repeats`, `duration`, `loads`, `routes`, `tls`, `mode`",
    );
    yaml("name: a\nmode: secrue\n", "2:7: unknown value `secrue`", "did you mean `secure`?");
    yaml("name: a\nmode: xyz\n", "2:7: unknown value `xyz`", "valid names here: `plain-text`, `secure`");
    yaml(
        "name: a\nloads:\n  full:\n    model: closed\n    conections: 1\n",
        "5:5: unknown field `conections`",
        "did you mean `connections`?",
    );
    yaml(
        "name: a\nloads:\n  f: { model: closd, connections: 1 }\n",
        "3:15: unknown value `closd`",
        "did you mean `closed`?",
    );
    json(
        "{\n  \"name\": \"a\", \"duratoin\": 1}",
        "2:16: unknown field `duratoin`",
        "did you mean `duration`?",
    );
    json(
        "{\"name\": \"a\",\n \"mode\": \"secrue\"}",
        "2:10: unknown value `secrue`",
        "did you mean `secure`?",
    );
}

#[test]
fn missing_fields_are_reported() {
    yaml("repeats: 3\n", "1:1: missing field `name`", "add `name`");
    yaml("name: a\nroutes:\n  - path: /\n", "3:5: missing field `backend`", "add `backend`");
    json("{\n  \"repeats\": 5}", "2:15: missing field `name`", "add `name`");
}

#[test]
fn wrong_types_are_reported() {
    let whole = "write a whole number (0 or more)";
    yaml("name: a\nrepeats: three\n", "2:10: `three` is not a whole number (0 or more)", whole);
    yaml("name: a\nrepeats: -3 # less\n", "2:10: `-3` is not a whole number (0 or more)", whole);
    yaml("name: a\nrepeats: [1]\n", "2:10: a list is not a single value", "write a single value");
    yaml("name: a\ntls: yes\n", "2:6: `yes` is not `true` or `false`", "write `true` or `false`");
    yaml("name:\n", "1:5: an empty value is not a string", "write a string");
    yaml("- a\n", "1:1: a list is not a mapping (`name: value`)", "write a mapping (`name: value`)");
    json(
        "{\"name\":\"a\",\n  \"repeats\": \"five\"}",
        "2:14: `five` is not a whole number (0 or more)",
        whole,
    );
    json("{\n  \"name\": 5}", "2:11: `5` is not a string", "write a string");
}

#[test]
fn invalid_units_are_rejected() {
    yaml("name: a\nduration: 10\n", "2:11: `10` has no unit", TIME_FORMS);
    yaml(
        "name: a\nduration: 10 parsecs\n",
        "2:11: `10 parsecs` is not a time",
        "write a number with its unit, like 100us, 20ms, 1.5s, 2m",
    );
    yaml(
        "name: a\nloads:\n  full: { model: open, rate: 50 }\n",
        "3:30: `50` has no unit",
        "write a rate with its unit, like 5000/s, 300/m",
    );
    json("{\"name\":\"a\",\n \"duration\": 5}", "2:14: `5` has no unit", TIME_FORMS);
    json("{\"name\":\"a\",\n \"duration\": \"5\"}", "2:14: `5` has no unit", TIME_FORMS);
}

#[test]
fn duplicate_keys_are_rejected() {
    yaml("name: a\nname: b\n", "2:1: duplicate field `name`", "remove one of them");
    let load = "{ model: closed, connections: 1 }";
    yaml(
        &format!("name: a\nloads:\n  x: {load}\n  x: {load}\n"),
        "4:3: duplicate field `x`",
        "remove one of them",
    );
    json("{\"name\":\"a\",\n \"name\": \"5\"}", "2:2: duplicate field `name`", "remove one of them");
    let load = "{\"model\":\"closed\",\"connections\":1}";
    json(
        &format!("{{\"name\":\"a\",\"loads\":{{\"x\":{load},\n \"x\":{load}}}}}"),
        "2:2: duplicate field `x`",
        "remove one of them",
    );
}

#[test]
fn malformed_yaml_is_rejected() {
    let check_line = "check the indentation, the colons and the quotes of this line and the one before it";
    yaml("name: a\nloads:\n\tx: 1\n", "3:2: a tab in the indentation", "indent with spaces");
    yaml("name: a\nloads:\n  x: b\n \ty: 1\n", "4:2: a tab in the indentation", "indent with spaces");
    yaml("name: a: b\n", "1:8: mapping values are not allowed in this context", check_line);
    yaml("name: \"a\n", "2:1: invalid indentation in multiline quoted scalar", check_line);
    yaml("name: *x\n", "1:7: an alias without an anchor", "define the anchor first with `&name`");
}

#[test]
fn empty_and_multiple_documents_are_rejected() {
    let remedy = "write one YAML or JSON document";
    for text in ["", "\n\n", "# only a comment\n---\n", "\u{feff}"] {
        yaml(text, "1:1: the document is empty", remedy);
    }
    yaml(
        "name: a\n---\nname: b\n",
        "3:1: a second document starts here",
        "keep one document and remove what follows `---`",
    );
    json("{\"name\":\"a\"} {}", "1:14: trailing characters", "keep one document and remove what follows it");
}

#[test]
fn malformed_json_is_rejected() {
    json("{\n  \"name\": \"a\",\n}", "3:1: trailing comma", "remove the comma before the closing bracket");
    json("{name: a}", "1:2: key must be a string", "put the key into double quotes");
    json(
        "{\"name\":\"a\"",
        "1:11: EOF while parsing an object",
        "add the missing bracket or quote at the end",
    );
}

#[test]
fn columns_count_characters_not_bytes() {
    yaml(
        "{ name: käse, repeats: x }",
        "1:24: `x` is not a whole number (0 or more)",
        "write a whole number (0 or more)",
    );
    json("{\"name\": \"käse\", \"repeat\": 1}", "1:18: unknown field `repeat`", "did you mean `repeats`?");
}

#[test]
fn deep_nesting_is_rejected() {
    let deep_block: String = (0..2000).fold(String::new(), |text, level| text + &" ".repeat(level) + "a:\n")
        + &" ".repeat(2000)
        + "b";
    for (source, text) in [
        ("a.yaml", "[".repeat(100_000)),
        ("a.yaml", "{a: ".repeat(100_000)),
        ("a.yaml", "- ".repeat(100_000)),
        ("a.yaml", deep_block),
    ] {
        let error = read::<serde_json::Value>(source, &text).unwrap_err();
        assert_eq!(error.message, "nested too deeply", "{error}");
        assert_eq!(error.remedy, "nest at most 32 levels");
    }
    let error = read::<serde_json::Value>("a.json", &"[".repeat(100_000)).unwrap_err();
    assert_eq!(error.to_string(), "a.json:1:128: recursion limit exceeded");
    assert_eq!(error.remedy, "nest less deeply: at most 127 levels");
}

#[test]
fn an_alias_bomb_is_rejected() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        writeln!(text, "a{level}: &a{level} [{}]", before.trim_end_matches(", ")).unwrap();
    }
    let error = read::<serde::de::IgnoredAny>("bomb.yaml", &text).unwrap_err();
    assert_eq!(error.remedy, "make the file smaller, or use fewer aliases", "{error}");
}

const ROUTES: usize = 100_000;

#[track_caller]
fn check_routes(source_name: &str, text: &str) {
    let doc: Doc = read(source_name, text).expect("the routes are well formed");
    assert_eq!(doc.routes.len(), ROUTES);
    let last = &doc.routes[ROUTES - 1];
    assert_eq!((last.path.as_str(), last.backend.as_str()), ("/api/99999", "b99"));
}

#[test]
fn reads_a_hundred_thousand_routes() {
    let mut flow = "name: x\nroutes:\n".to_owned();
    let mut block = flow.clone();
    let mut json = "{\"name\": \"x\", \"routes\": [".to_owned();
    for i in 0..ROUTES {
        let backend = i % 100;
        writeln!(flow, "  - {{ path: /api/{i}, backend: b{backend} }}").unwrap();
        writeln!(block, "  - path: /api/{i}\n    backend: b{backend}").unwrap();
        let comma = if i == 0 { "" } else { "," };
        write!(json, "{comma}{{\"path\": \"/api/{i}\", \"backend\": \"b{backend}\"}}").unwrap();
    }
    json.push_str("]}");
    check_routes("routes.yaml", &flow);
    check_routes("routes.yaml", &block);
    check_routes("routes.json", &json);
    check_routes("routes.yaml", &json);
}

#[test]
fn one_anchor_may_serve_a_hundred_thousand_routes() {
    let mut text = "name: x\nroutes:\n  - path: /\n    backend: &b b99\n".to_owned();
    for i in 1..ROUTES {
        writeln!(text, "  - {{ path: /api/{i}, backend: *b }}").unwrap();
    }
    check_routes("routes.yaml", &text);
}

#[test]
fn long_lines_are_read() {
    let names: Vec<String> = (0..2_000).map(|i| format!("/get/{i}")).collect();
    let list = names.join(", ");
    for text in [
        format!("exact: [{list}]\n"),
        format!("{{ exact: [{list}] }}"),
        format!("{{ \"exact\": [ {list} ] }}"),
        format!("exact:\n{}", names.iter().map(|name| format!("  - {name}\n")).collect::<String>()),
    ] {
        let read: BTreeMap<String, Vec<String>> = read("long.yaml", &text).unwrap();
        assert_eq!(read["exact"], names);
    }
    let nested: Vec<Vec<String>> = read("long.yaml", &format!("- [{list}]\n- [{list}]\n")).unwrap();
    assert_eq!(nested, [names.clone(), names]);
}

#[test]
fn positions_are_found_in_large_files() {
    let mut text = "routes:\n".to_owned();
    for i in 0..ROUTES {
        writeln!(text, "  - {{ path: /api/{i}, backend: b }}").unwrap();
    }
    assert_eq!(weir_document::place(&text, &["routes", "99999", "backend"]), Some((100_001, 34)));
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Quantities {
    time: Time,
    size: Size,
    rate: Rate,
    share: Share,
}

#[test]
fn quantities_keep_their_value_through_a_document() {
    let text = "time: 1.5s\nsize: 64KiB\nrate: 300/m\nshare: 0.001\n";
    let read_back: Quantities = read("q.yaml", text).unwrap();
    let json = serde_json::to_string(&read_back).unwrap();
    assert_eq!(json, r#"{"time":"1500ms","size":"64KiB","rate":"5/s","share":"0.1%"}"#);
    assert_eq!(read::<Quantities>("q.json", &json).unwrap(), read_back);
}

#[test]
fn schemas_of_quantities_contain_their_form() {
    let schema = schemars::schema_for!(Time);
    let text = serde_json::to_string(&schema).unwrap();
    assert!(text.contains("a time with its unit, like 100us, 20ms"), "{text}");
}
