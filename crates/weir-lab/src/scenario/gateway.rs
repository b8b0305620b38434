//! A gateway of a scenario: the name of a driver, or a mapping.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use weir_document::Named;
use weir_engine::TlsSpec;
use weir_rig::{ImageName, REMOTE};

use super::{Limit, ObjectiveSpec, PrometheusSource, Remote, SamplerSource, Url};

/// A gateway under test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gateway {
    /// Name in tables and reports, unique in the scenario: letters, digits, `-`, `_` and `.`; not `direct`.
    pub name: String,
    /// Driver that starts the gateway, or `remote` for a gateway that runs elsewhere. Default: the name.
    pub driver: String,
    /// Path of the program. By default weir searches `target/peers/bin`, its own folder and `PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary: Option<PathBuf>,
    /// Container image that it runs in, like `nginx:1.29`; `binary` is then the path in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageName>,
    /// Configuration file that replaces the main one of the driver; its path is relative to the scenario's folder,
    /// and the run stores its text. It is a template with the driver's values: it must listen on `{{ listen }}` and
    /// forward to `{{ origins[0] }}`, and can write to `{{ dir }}`. weir reads its counters on `{{ admin }}`, if it
    /// serves them as the driver's file does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    /// Address that the gateway listens on, if `config` does not use `{{ listen }}`. Default: a free port on
    /// loopback. With `network: namespaces` it must be on all addresses, like `0.0.0.0:8080`. (`weir load --resolve`)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Settings of the driver, like `{ buffering: false }`. `settings` in its driver.yaml lists them with their
    /// defaults.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub set: Named<serde_json::Value>,
    /// Skip the gateway with a note if its binary is missing. By default the run fails.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// What this gateway must achieve. Its limits override those of the load and the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveSpec>,
    /// Where it is, with the driver `remote`.
    #[serde(flatten)]
    pub remote: Remote,
}

impl Gateway {
    /// The gateway of the driver `name` with defaults.
    pub fn of_driver(name: &str) -> Self {
        let name = name.to_owned();
        Self {
            driver: name.clone(),
            name,
            binary: None,
            image: None,
            config: None,
            listen: None,
            set: Named::default(),
            optional: false,
            objective: None,
            remote: Remote::default(),
        }
    }

    /// Whether it is remote: it has a URL, and weir does not start it.
    pub fn is_remote(&self) -> bool {
        self.driver == REMOTE
    }

    /// The files that it names, with their fields.
    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut PathBuf)> {
        self.config.iter_mut().map(|file| ("config", file)).chain(self.remote.files_mut())
    }
}

/// A gateway under test.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Name in tables and reports, unique in the scenario: letters, digits, `-`, `_` and `.`; not `direct`.
    name: String,
    /// Driver that starts the gateway, or `remote` for a gateway that runs elsewhere.
    #[serde(default)]
    #[schemars(extend("x-default" = "the name"))]
    driver: Option<String>,
    /// Path of the program. weir searches `target/peers/bin`, its own folder and `PATH`.
    #[serde(default)]
    #[schemars(extend("x-default" = "the one that weir finds"))]
    binary: Option<PathBuf>,
    /// Container image that it runs in, like `nginx:1.29`; `binary` is then the path in the image.
    #[serde(default)]
    image: Option<ImageName>,
    /// Configuration file that replaces the main one of the driver; its path is relative to the scenario's folder,
    /// and the run stores its text. It is a template with the driver's values: it must listen on `{{ listen }}` and
    /// forward to `{{ origins[0] }}`, and can write to `{{ dir }}`. weir reads its counters on `{{ admin }}`, if it
    /// serves them as the driver's file does.
    #[serde(default)]
    config: Option<PathBuf>,
    /// Address that the gateway listens on, if `config` does not use `{{ listen }}`. With `network: namespaces` it
    /// must be on all addresses, like `0.0.0.0:8080`. (`weir load --resolve`)
    #[serde(default)]
    #[schemars(extend("x-default" = "a free port on loopback"))]
    listen: Option<Address>,
    /// Settings of the driver, like `{ buffering: false }`. `settings` in its driver.yaml lists them with their
    /// defaults.
    #[serde(default)]
    set: Named<serde_json::Value>,
    /// Skip the gateway with a note if its binary is missing; otherwise the run fails.
    #[serde(default)]
    optional: bool,
    /// What this gateway must achieve. Its limits override those of the load and the scenario.
    #[serde(default)]
    objective: Option<ObjectiveSpec>,
    /// Driver `remote` (required there): where load goes, like `https://gw.example`. Paths belong into
    /// `topology.paths`.
    #[serde(default)]
    url: Option<Url>,
    /// Driver `remote`: value of the Host header.
    #[serde(default)]
    #[schemars(extend("x-default" = "host and port of `url`"))]
    host: Option<String>,
    /// Driver `remote`: URL of its upstream, for the direct baseline. Without it the run has no direct cells. All
    /// gateways of a scenario have the same one, or none.
    #[serde(default)]
    direct: Option<Url>,
    /// Driver `remote`: TLS of the connections to `https://` URLs.
    #[serde(default)]
    tls: Option<TlsSpec>,
    /// Driver `remote`: the limits of the gateway on its host; weir sets none.
    #[serde(default)]
    #[schemars(extend("x-default" = "those that cAdvisor reports"))]
    limits: Option<Limit>,
    /// Driver `remote`: Prometheus that has its CPU and memory. Not with `sampler`.
    #[serde(default)]
    prometheus: Option<PrometheusSource>,
    /// Driver `remote`: agent on its host that samples CPU and memory. Not with `prometheus`.
    #[serde(default)]
    sampler: Option<SamplerSource>,
}

/// An IP address and port, like `127.0.0.1:8080`.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
struct Address(SocketAddr);

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = |_| format!("`{text}` is not an address; use a form like 127.0.0.1:8080");
        text.parse().map(Self).map_err(wrong)
    }
}

impl<'de> Deserialize<'de> for Gateway {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrMap)
    }
}

struct NameOrMap;

impl<'de> Visitor<'de> for NameOrMap {
    type Value = Gateway;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a gateway's name or a map like { name: old, driver: nginx }")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Gateway, E> {
        Ok(Gateway::of_driver(name))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Gateway, A::Error> {
        let written = Written::deserialize(MapAccessDeserializer::new(map))?;
        let Written { name, driver, binary, image, config, listen, set, optional, objective, .. } = written;
        let Written { url, host, direct, tls, limits, prometheus, sampler, .. } = written;
        let remote = Remote { url, host, direct, tls, limits, prometheus, sampler };
        let driver = driver.unwrap_or_else(|| name.clone());
        let listen = listen.map(|address| address.0);
        Ok(Gateway { driver, name, binary, image, config, listen, set, optional, objective, remote })
    }
}

impl JsonSchema for Gateway {
    fn schema_name() -> Cow<'static, str> {
        "Gateway".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let map = generator.subschema_for::<Written>();
        json_schema!({
            "description": "A gateway under test: the name of a driver, or a mapping.",
            "anyOf": [{ "type": "string" }, map]
        })
    }
}
