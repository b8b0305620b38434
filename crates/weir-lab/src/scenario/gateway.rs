//! A gateway of a scenario: a driver by name, or with more to say.

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
    /// Its name in tables and reports, unique in the scenario.
    pub name: String,
    /// The driver that knows how to run it; its own name by default.
    pub driver: String,
    /// The binary, where it is not the one that the driver finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary: Option<PathBuf>,
    /// The image of the container that it runs in, like `nginx:1.29`; `binary` is then its path in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageName>,
    /// A configuration file of its own, in place of the main one that the driver renders; a template as that is.
    /// A path is relative to the scenario's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    /// The address that it listens on; a free port on loopback by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Values for the driver's templates.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub set: Named<serde_json::Value>,
    /// Left out with a note, rather than failed, where its binary is missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// What it has to keep, over the scenario's objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveSpec>,
    /// Where it is, with the driver `remote`.
    #[serde(flatten)]
    pub remote: Remote,
}

impl Gateway {
    /// The gateway that the driver `name` runs, with nothing special about it.
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

    /// Whether it runs elsewhere: it has a URL, and no process of weir's.
    pub fn is_remote(&self) -> bool {
        self.driver == REMOTE
    }

    /// The files that it names, with their fields.
    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut PathBuf)> {
        self.config.iter_mut().map(|file| ("config", file)).chain(self.remote.files_mut())
    }
}

/// The long form.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Its name in tables and reports, unique in the scenario.
    name: String,
    /// The driver that knows how to run it; its own name by default.
    #[serde(default)]
    driver: Option<String>,
    /// The binary, where it is not the one that the driver finds.
    #[serde(default)]
    binary: Option<PathBuf>,
    /// The image of the container that it runs in, like `nginx:1.29`; `binary` is then its path in the image.
    #[serde(default)]
    image: Option<ImageName>,
    /// A configuration file of its own, in place of the main one that the driver renders; a template as that is.
    /// A path is relative to the scenario's folder.
    #[serde(default)]
    config: Option<PathBuf>,
    /// The address that it listens on; a free port on loopback by default.
    #[serde(default)]
    listen: Option<Address>,
    /// Values for the driver's templates.
    #[serde(default)]
    set: Named<serde_json::Value>,
    /// Left out with a note, rather than failed, where its binary is missing.
    #[serde(default)]
    optional: bool,
    /// What it has to keep, over the scenario's objective.
    #[serde(default)]
    objective: Option<ObjectiveSpec>,
    /// Driver `remote`: where load goes.
    #[serde(default)]
    url: Option<Url>,
    /// Driver `remote`: the value of Host; by default the URL's host and port.
    #[serde(default)]
    host: Option<String>,
    /// Driver `remote`: its upstream, for the direct baseline; without it there is none.
    #[serde(default)]
    direct: Option<Url>,
    /// Driver `remote`: TLS on the connections to a URL of https.
    #[serde(default)]
    tls: Option<TlsSpec>,
    /// Driver `remote`: the limits that it has where it runs; weir sets none there.
    #[serde(default)]
    limits: Option<Limit>,
    /// Driver `remote`: who knows what it uses.
    #[serde(default)]
    prometheus: Option<PrometheusSource>,
    /// Driver `remote`: an agent beside it that samples what it uses.
    #[serde(default)]
    sampler: Option<SamplerSource>,
}

/// An address, with an error that says what one looks like.
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
            "description": "A gateway under test: a driver's name, or a map.",
            "anyOf": [{ "type": "string" }, map]
        })
    }
}
