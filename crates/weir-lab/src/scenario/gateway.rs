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
    /// Path of the program. By default weir searches `target/peers/bin`, the folder of the weir program, and `PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary: Option<PathBuf>,
    /// Container image that the gateway runs in, like `nginx:1.29`; `binary` is then the path in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageName>,
    /// Configuration file that replaces the main template of the driver. The path is relative to the scenario's folder,
    /// and the run stores the text of the file. The file is a template with the driver's values: the gateway must
    /// listen on `{{ listen }}` and forward to `{{ origins[0] }}`, and can write to `{{ dir }}`. If the gateway serves
    /// its counters on `{{ admin }}` in the same way as with the driver's template, weir reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    /// Address that the gateway listens on, if `config` does not use `{{ listen }}`. Default: a free port on loopback.
    /// With `network: namespaces`, this must be a wildcard address, like `0.0.0.0:8080`. (`weir load --resolve`)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Settings of the driver, like `{ buffering: false }`. `settings` in the driver's driver.yaml lists them with
    /// their defaults.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub set: Named<serde_json::Value>,
    /// Skip the gateway with a note if its binary is missing. By default the cells of the gateway fail.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The gateway's own objective. It overrides the objectives of the load and the scenario, limit by limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveSpec>,
    /// With the driver `remote`: the URL of the gateway, and the source of its CPU and memory.
    #[serde(flatten)]
    pub remote: Remote,
}

impl Gateway {
    /// A gateway whose name and driver are `name`, with defaults for all other fields.
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

    /// Whether the gateway is remote: weir does not start it, and sends load to its URL.
    pub fn is_remote(&self) -> bool {
        self.driver == REMOTE
    }

    /// The paths of files in the gateway's fields, each with the name of its field.
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
    /// Path of the program. weir searches `target/peers/bin`, the folder of the weir program, and `PATH`.
    #[serde(default)]
    #[schemars(extend("x-default" = "the program that weir finds"))]
    binary: Option<PathBuf>,
    /// Container image that the gateway runs in, like `nginx:1.29`; `binary` is then the path in the image.
    #[serde(default)]
    image: Option<ImageName>,
    /// Configuration file that replaces the main template of the driver. The path is relative to the scenario's folder,
    /// and the run stores the text of the file. The file is a template with the driver's values: the gateway must
    /// listen on `{{ listen }}` and forward to `{{ origins[0] }}`, and can write to `{{ dir }}`. If the gateway serves
    /// its counters on `{{ admin }}` in the same way as with the driver's template, weir reads them.
    #[serde(default)]
    config: Option<PathBuf>,
    /// Address that the gateway listens on, if `config` does not use `{{ listen }}`. With `network: namespaces`, this
    /// must be a wildcard address, like `0.0.0.0:8080`. (`weir load --resolve`)
    #[serde(default)]
    #[schemars(extend("x-default" = "a free port on loopback"))]
    listen: Option<Address>,
    /// Settings of the driver, like `{ buffering: false }`. `settings` in the driver's driver.yaml lists them with
    /// their defaults.
    #[serde(default)]
    set: Named<serde_json::Value>,
    /// Skip the gateway with a note if its binary is missing. Without this setting, the cells of the gateway fail.
    #[serde(default)]
    optional: bool,
    /// The gateway's own objective. It overrides the objectives of the load and the scenario, limit by limit.
    #[serde(default)]
    objective: Option<ObjectiveSpec>,
    /// Driver `remote`, required: the URL to which weir sends load, like `https://gw.example`. Set paths in
    /// `topology.paths`.
    #[serde(default)]
    url: Option<Url>,
    /// Driver `remote`: value of the Host header.
    #[serde(default)]
    #[schemars(extend("x-default" = "host and port of `url`"))]
    host: Option<String>,
    /// Driver `remote`: URL of the gateway's upstream, for the direct baseline. Without this URL the run has no direct
    /// cells. Either all gateways of a scenario have the same URL here, or none of them has a URL.
    #[serde(default)]
    direct: Option<Url>,
    /// Driver `remote`: TLS settings of the connections to `https://` URLs.
    #[serde(default)]
    tls: Option<TlsSpec>,
    /// Driver `remote`: the limits that the gateway has on its host. weir does not set them.
    #[serde(default)]
    #[schemars(extend("x-default" = "the limits that cAdvisor reports"))]
    limits: Option<Limit>,
    /// Driver `remote`: Prometheus server that has the CPU and memory metrics of the gateway. Not with `sampler`.
    #[serde(default)]
    prometheus: Option<PrometheusSource>,
    /// Driver `remote`: agent on the gateway's host that samples the gateway's CPU and memory. Not with `prometheus`.
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
        f.write_str("a driver name or a mapping like { name: old, driver: nginx }")
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
