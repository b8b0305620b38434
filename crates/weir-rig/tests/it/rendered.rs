//! Validates configurations that the driver `weir` renders against the JSON Schema of weir-gateway.

use serde_json::Value;
use weir_rig::{Binding, Drivers, TlsBinding, tokens};

use crate::gateways::binding;

#[test]
fn rendered_weir_configurations_match_the_schema() {
    let dir = tempfile::tempdir().unwrap();
    let drivers = Drivers::load(&[]).unwrap();
    let driver = drivers.driver("weir").unwrap();
    let validator = jsonschema::draft202012::new(&weir_config::schema()).unwrap();
    let tls = |certificate_each| Some(TlsBinding { client_certificate: true, certificate_each });
    for (name, binding) in [
        ("plain", binding()),
        ("every-host", Binding { hosts: Vec::new(), rewrite: Some("/".into()), ..binding() }),
        ("secured", Binding { tls: tls(false), tokens: tokens(7, 3), ..binding() }),
        ("certificates", Binding { tls: tls(true), ..binding() }),
        ("retries", Binding { set: [("retries".to_owned(), 2.into())].into(), ..binding() }),
    ] {
        let rendered = driver.render(&binding, &dir.path().join(name)).unwrap();
        let file = rendered.files.iter().find(|file| file.ends_with("weir.yaml")).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        let document: Value = weir_document::read("weir.yaml", &text).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert_eq!(wrong, [""; 0], "{name}: {text}");
    }
}
