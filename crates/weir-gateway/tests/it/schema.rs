//! The JSON Schema, checked against configurations.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::mistakes::{GOOD, Kind, MISTAKES};

fn validator() -> jsonschema::Validator {
    jsonschema::draft202012::new(&weir_config::schema()).expect("a schema")
}

fn read(text: &str) -> Value {
    weir_document::read("a.yaml", text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn wrong(validator: &jsonschema::Validator, document: &Value) -> Vec<String> {
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The configurations in the manual's pages, as they are printed there.
fn examples() -> Vec<(PathBuf, String)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = std::fs::read_dir(docs).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut examples = Vec::new();
    for page in pages.filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let text = std::fs::read_to_string(&page).expect("a page");
        let blocks = text.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
        let is_ours = |block: &str| {
            block.lines().any(|line| line.starts_with("listeners:") || line.starts_with("routes:"))
        };
        examples.extend(
            blocks
                .filter(|(language, block)| *language == "yaml" && is_ours(block))
                .map(|(_, block)| (page.clone(), block.to_owned())),
        );
    }
    examples
}

#[test]
fn every_configuration_of_the_manual_is_valid() {
    let validator = validator();
    let examples = examples();
    assert!(examples.len() > 10, "{examples:?}");
    for (page, example) in examples {
        let mut document = read(&example);
        let fields = document.as_object_mut().expect("a mapping");
        fields.entry("listeners").or_insert_with(|| json!([{ "address": "127.0.0.1:1" }]));
        assert_eq!(wrong(&validator, &document), [""; 0], "{}: {example}", page.display());
    }
}

#[test]
fn the_schema_rejects_exactly_the_mistakes_of_form() {
    let validator = validator();
    assert_eq!(wrong(&validator, &read(GOOD)), [""; 0]);
    let mut of_form = 0;
    for mistake in MISTAKES {
        if mistake.kind != Kind::Syntax {
            let is_wrong = !validator.is_valid(&read(&mistake.text()));
            assert_eq!(is_wrong, mistake.kind == Kind::Form, "{mistake:?}");
            of_form += usize::from(is_wrong);
        }
    }
    assert!(of_form >= 20, "{of_form}");
}

#[test]
fn the_examples_of_fields_are_valid() {
    let schema = weir_config::schema();
    let types = schema["$defs"].as_object().expect("types").values().chain([&schema]);
    let mut count = 0;
    for (name, field) in types.filter_map(|kind| kind["properties"].as_object()).flatten() {
        let mut single = field.clone();
        single["$defs"] = schema["$defs"].clone();
        let validator = jsonschema::draft202012::new(&single).expect("a schema");
        let examples = field["examples"].as_array().into_iter().flatten();
        for example in examples.chain(field.get("default").filter(|default| !default.is_null())) {
            assert_eq!(wrong(&validator, example), [""; 0], "{name}: {example}");
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
}

#[test]
fn the_schema_is_printed() {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-gateway")).arg("schema").output().expect("it starts");
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(schema, weir_config::schema());
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}
