//! All manifests together, in the gateway's own model.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::{Configuration, Key, Resource};

use crate::kind::Kind;
use crate::manifest::{Body, Manifest};
use crate::origin::Origin;

mod attach;
mod catalog;
mod filters;
mod gateways;
mod hosts;
mod listeners;
mod rules;
mod tls_routes;

use catalog::Catalog;
use gateways::Gateways;

/// Something in a manifest that can't be had, or does not fit the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The position of the manifest among those that were given.
    pub manifest: usize,
    /// The field, as in `spec.rules[0].backendRefs[1]`.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
    /// What would be right.
    pub remedy: String,
    /// Another manifest that the message is about.
    pub other: Option<usize>,
}

/// What manifests say, in the gateway's own model.
#[derive(Debug, Default)]
pub struct Translation {
    /// The resources, each under its key.
    pub resources: Vec<(Key, Resource)>,
    /// Every file that backends name, with the place that names it first.
    pub files: BTreeMap<String, String>,
    /// Those of them that TLS is made of.
    pub tls_files: BTreeSet<String>,
    /// Where each of them came from, by the beginning of the places that its problems have.
    origins: BTreeMap<String, Origin>,
}

/// Translates all manifests, which are no lists.
///
/// # Errors
/// Everything that is found wrong with them by themselves. What is left is for `weir-config` to find.
pub fn translate(manifests: &[&Manifest]) -> Result<Translation, Vec<Misfit>> {
    let mut misfits = Vec::new();
    let catalog = Catalog::of(manifests, &mut misfits);
    let gateways = Gateways::of(&catalog, &mut misfits);
    let mut translation = Translation::default();
    // Which files they name is told of configurations.
    let mut backends = Configuration::default();
    for (position, name, body) in catalog.all(Kind::Backend) {
        let Body::Backend(spec) = body else { continue };
        backends.backends.insert(name.to_string(), (*spec.0).clone());
        let (key, resource) = (Key::Backend(name.to_string()), Resource::Backend((*spec.0).clone().into()));
        translation.add(format!("backends.{name}"), Origin::Backend(position), key, resource);
    }
    translation.files = backends.files();
    translation.tls_files = backends.tls_files();
    rules::add_http_routes(&catalog, &gateways, &mut translation, &mut misfits);
    let passed_on = tls_routes::passed_on(&catalog, &gateways, &mut misfits);
    listeners::add_listeners(&catalog, &gateways, &passed_on, &mut translation, &mut misfits);
    if misfits.is_empty() { Ok(translation) } else { Err(misfits) }
}

impl Translation {
    /// The manifest, by its position, and the field of it that the `place` of a problem of `weir-config` is about; `None`
    /// where it is about none of them.
    pub fn locate(&self, manifests: &[&Manifest], place: &str) -> Option<(usize, String)> {
        let is_end = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        let of_place = self.origins.iter().filter_map(|(start, origin)| {
            let rest = place.strip_prefix(start.as_str()).filter(|rest| is_end(rest))?;
            Some((start.len(), origin, rest))
        });
        let (_, origin, rest) = of_place.max_by_key(|(length, ..)| *length)?;
        Some(origin.locate(manifests, rest))
    }

    fn add(&mut self, place: String, origin: Origin, key: Key, resource: Resource) {
        self.origins.insert(place, origin);
        self.resources.push((key, resource));
    }
}

impl Misfit {
    fn new(
        manifest: usize,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Misfit {
        Misfit { manifest, path: path.into(), message: message.into(), remedy: remedy.into(), other: None }
    }
}

/// Hosts that are wanted of one listener of the model: every one, or those with these names, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct WantedHosts {
    /// The listener's port.
    port: u16,
    every: bool,
    names: BTreeSet<String>,
}

/// By the listener's label in the model.
type Attachments = BTreeMap<String, WantedHosts>;
