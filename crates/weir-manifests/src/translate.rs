//! Translates all manifests together to the gateway model.

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

/// An error in a manifest: it uses something unsupported, or conflicts with other manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The index of the manifest.
    pub manifest: usize,
    /// The path of the field, such as `spec.rules[0].backendRefs[1]`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// How to fix the problem.
    pub remedy: String,
    /// The index of another manifest that the message is about, if any.
    pub other: Option<usize>,
}

/// The manifests, translated to the gateway model.
#[derive(Debug, Default)]
pub struct Translation {
    /// The resources with their keys.
    pub resources: Vec<(Key, Resource)>,
    /// Every file that backends reference, with the first field that references it.
    pub files: BTreeMap<String, String>,
    /// The files in `files` that contain TLS certificates and keys.
    pub tls_files: BTreeSet<String>,
    /// The manifest fields that each resource was built from. The key is a place such as `HTTPRoute shop/web rules[0]`.
    /// All problems that `weir-config` reports for the resource are at this place or inside it.
    origins: BTreeMap<String, Origin>,
}

/// Translates all manifests. Lists must be split into their items first.
///
/// # Errors
/// All errors that can be found in the manifests alone. `weir-config` finds the others.
pub fn translate(manifests: &[&Manifest]) -> Result<Translation, Vec<Misfit>> {
    let mut misfits = Vec::new();
    let catalog = Catalog::of(manifests, &mut misfits);
    let gateways = Gateways::of(&catalog, &mut misfits);
    let mut translation = Translation::default();
    // `Configuration` collects the files that backends reference.
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
    /// Maps the `place` of a problem that `weir-config` reports to the index of a manifest and its field. Returns
    /// `None` if the problem is not about a manifest.
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

/// The hosts that a route matches at one listener of the gateway model: every host (`every`), the hosts in `names`, or
/// both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct WantedHosts {
    /// The listener's port.
    port: u16,
    every: bool,
    names: BTreeSet<String>,
}

/// The hosts of a route at each listener, by the label of the listener in the gateway model.
type Attachments = BTreeMap<String, WantedHosts>;
