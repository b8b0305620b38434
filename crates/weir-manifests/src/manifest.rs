//! One manifest: the fields that all kinds have in common, and the content of each kind.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::backend::{BackendSpec, ReferenceGrantSpec};
use crate::gateway::{GatewayClassSpec, GatewaySpec};
use crate::kind::Kind;
use crate::route::{HttpRouteSpec, TlsRouteSpec};
use crate::secret::{Secret, Values};
use crate::text::parsed;

const FIELDS: &[&str] =
    &["apiVersion", "kind", "metadata", "spec", "status", "data", "stringData", "type", "immutable", "items"];

/// The namespace of a manifest that does not name one.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// Maximum length of a resource name, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// A manifest: a resource as users apply it to a cluster.
#[derive(Debug)]
pub struct Manifest {
    pub(crate) name: Name,
    /// When the resource was created, in seconds of Unix time; `i64::MAX` if unknown.
    pub(crate) created_s: i64,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) body: Body,
}

/// The namespace and the name, which identify a resource within its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    /// The namespace; empty for cluster-scoped kinds.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The content of a manifest, by kind.
#[derive(Debug)]
pub(crate) enum Body {
    GatewayClass(GatewayClassSpec),
    Gateway(GatewaySpec),
    HttpRoute(HttpRouteSpec),
    TlsRoute(TlsRouteSpec),
    ReferenceGrant(ReferenceGrantSpec),
    Backend(BackendSpec),
    Secret(Secret),
    Namespace,
    List(Vec<Manifest>),
}

impl Manifest {
    /// The name of the resource in messages, such as `HTTPRoute default/shop`.
    pub fn title(&self) -> String {
        format!("{} {}", self.body.kind(), self.name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

impl Body {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Body::GatewayClass(_) => Kind::GatewayClass,
            Body::Gateway(_) => Kind::Gateway,
            Body::HttpRoute(_) => Kind::HttpRoute,
            Body::TlsRoute(_) => Kind::TlsRoute,
            Body::ReferenceGrant(_) => Kind::ReferenceGrant,
            Body::Backend(_) => Kind::Backend,
            Body::Secret(_) => Kind::Secret,
            Body::Namespace => Kind::Namespace,
            Body::List(_) => Kind::List,
        }
    }
}

/// The fields of `metadata` that weir uses.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    name: Option<Label>,
    namespace: Option<Label>,
    creation_timestamp: Option<Created>,
    labels: Option<BTreeMap<String, String>>,
}

/// A valid resource name.
#[derive(Debug)]
struct Label(String);

/// A creation time, in seconds of Unix time.
#[derive(Debug)]
struct Created(i64);

/// A partly read manifest: the fields that have been read so far.
#[derive(Default)]
struct Draft {
    api_version: Option<String>,
    kind: Option<Kind>,
    metadata: Option<Metadata>,
    body: Option<Body>,
    /// The `spec`, if it comes before `kind` in the document. It is parsed when the kind is known.
    early_spec: Option<serde_json::Value>,
    data: Option<Values>,
    string_data: Option<Values>,
    secret_type: Option<String>,
    items: Option<Vec<Manifest>>,
}

impl<'de> Deserialize<'de> for Manifest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Manifest, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Manifest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a manifest with `apiVersion`, `kind` and `metadata`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Manifest, A::Error> {
                let mut draft = Draft::default();
                while let Some(field) = map.next_key::<String>()? {
                    draft.take(&field, &mut map)?;
                }
                draft.finish()
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl Draft {
    fn take<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<(), A::Error> {
        match field {
            "apiVersion" => self.api_version = Some(map.next_value()?),
            "kind" => self.kind = Some(map.next_value()?),
            "metadata" => self.metadata = Some(map.next_value()?),
            "spec" => match self.kind {
                Some(kind) => self.body = Some(map.next_value_seed(Spec(kind))?),
                None => self.early_spec = Some(map.next_value()?),
            },
            "data" => self.data = map.next_value()?,
            "stringData" => self.string_data = map.next_value()?,
            "type" => self.secret_type = map.next_value()?,
            "items" => self.items = Some(map.next_value()?),
            "status" | "immutable" => drop(map.next_value::<IgnoredAny>()?),
            other => return Err(de::Error::unknown_field(other, FIELDS)),
        }
        Ok(())
    }

    fn finish<E: de::Error>(mut self) -> Result<Manifest, E> {
        let kind = self.kind.ok_or_else(|| E::missing_field("kind"))?;
        let api_version = self.api_version.take().ok_or_else(|| E::missing_field("apiVersion"))?;
        kind.check_version(&api_version).map_err(E::custom)?;
        let metadata = self.metadata.take().unwrap_or_default();
        let name = name_of(kind, &metadata).map_err(E::custom)?;
        let created_s = metadata.creation_timestamp.map_or(i64::MAX, |created| created.0);
        let body = self.body(kind)?;
        Ok(Manifest { name, created_s, labels: metadata.labels.unwrap_or_default(), body })
    }

    fn body<E: de::Error>(&mut self, kind: Kind) -> Result<Body, E> {
        let has_data = self.data.is_some() || self.string_data.is_some() || self.secret_type.is_some();
        if has_data && kind != Kind::Secret {
            return Err(E::custom(format!("a {kind} has no fields `data` and `type`; remove them")));
        }
        if self.items.is_some() && kind != Kind::List {
            return Err(E::custom(format!("a {kind} has no field `items`; remove it")));
        }
        if let Some(spec) = self.early_spec.take() {
            self.body = Some(Spec(kind).deserialize(spec).map_err(E::custom)?);
        }
        match (kind, self.body.take()) {
            (_, Some(body)) => Ok(body),
            (Kind::Secret, None) => Ok(Body::Secret(Secret {
                of_type: self.secret_type.take(),
                data: self.data.take().unwrap_or_default(),
                string_data: self.string_data.take().unwrap_or_default(),
            })),
            (Kind::Namespace, None) => Ok(Body::Namespace),
            (Kind::List, None) => self.items.take().map(Body::List).ok_or_else(|| E::missing_field("items")),
            (_, None) => Err(E::missing_field("spec")),
        }
    }
}

/// Reads the `spec` of this kind.
struct Spec(Kind);

impl<'de> DeserializeSeed<'de> for Spec {
    type Value = Body;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Body, D::Error> {
        Ok(match self.0 {
            Kind::GatewayClass => Body::GatewayClass(Deserialize::deserialize(deserializer)?),
            Kind::Gateway => Body::Gateway(Deserialize::deserialize(deserializer)?),
            Kind::HttpRoute => Body::HttpRoute(Deserialize::deserialize(deserializer)?),
            Kind::TlsRoute => Body::TlsRoute(Deserialize::deserialize(deserializer)?),
            Kind::ReferenceGrant => Body::ReferenceGrant(Deserialize::deserialize(deserializer)?),
            Kind::Backend => Body::Backend(Deserialize::deserialize(deserializer)?),
            // The `spec` of a namespace contains only finalizers, which weir does not use.
            Kind::Namespace => {
                IgnoredAny::deserialize(deserializer)?;
                Body::Namespace
            }
            kind @ (Kind::Secret | Kind::List) => {
                return Err(de::Error::custom(format!("a {kind} has no field `spec`; remove it")));
            }
        })
    }
}

fn name_of(kind: Kind, metadata: &Metadata) -> Result<Name, String> {
    let namespace = match (&metadata.namespace, kind.is_of_cluster()) {
        (_, true) => "",
        (Some(namespace), false) => &namespace.0,
        (None, false) => DEFAULT_NAMESPACE,
    };
    let name = match (&metadata.name, kind) {
        (Some(name), _) => &name.0,
        (None, Kind::List) => "",
        (None, _) => return Err(format!("the {kind} has no name; write `metadata: {{ name: .. }}`")),
    };
    Ok(Name { namespace: namespace.to_owned(), name: name.to_owned() })
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Label, D::Error> {
        parsed(deserializer, "a name", |text| {
            let is_one = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
            match !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_one) {
                true => Ok(Label(text.to_owned())),
                false => {
                    let text = text.escape_debug();
                    Err(format!("`{text}` is not a valid name; use lowercase letters, digits, `-` and `.`"))
                }
            }
        })
    }
}

impl<'de> Deserialize<'de> for Created {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Created, D::Error> {
        parsed(deserializer, "a time like 2026-01-31T12:00:00Z", |text| {
            let time: Result<Timestamp, _> = text.parse();
            time.map(|time| Created(time.as_second())).map_err(|_| {
                format!("`{text}` is not a time; write it like 2026-01-31T12:00:00Z, or remove the field")
            })
        })
    }
}
