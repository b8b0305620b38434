//! Finds manifests by kind and name, and checks references between them.

use std::collections::BTreeMap;

use weir_document::nearest;

use super::Misfit;
use crate::kind::Kind;
use crate::manifest::{Body, Manifest, Name};

/// Maximum number of names that an error lists if none is similar to the unknown name.
const NAMES_MAX: usize = 8;

/// A name that sorts before all others.
static FIRST: Name = Name { namespace: String::new(), name: String::new() };

/// All manifests, with an index by kind and name.
pub(super) struct Catalog<'m> {
    pub(super) manifests: &'m [&'m Manifest],
    by_name: BTreeMap<(Kind, &'m Name), usize>,
}

/// The resource that contains a reference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Referrer<'m> {
    /// Index of the resource among the manifests.
    pub(super) manifest: usize,
    pub(super) kind: Kind,
    pub(super) namespace: &'m str,
}

/// The referenced resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'m> {
    pub(super) kind: Kind,
    /// The namespace; `None` is the namespace of the referrer.
    pub(super) namespace: Option<&'m str>,
    pub(super) name: &'m str,
}

impl<'m> Wanted<'m> {
    /// A reference without a namespace. It refers to a resource in the namespace of the referrer.
    pub(super) fn without_namespace(kind: Kind, name: &'m str) -> Wanted<'m> {
        Wanted { kind, namespace: None, name }
    }
}

impl<'m> Catalog<'m> {
    pub(super) fn of(manifests: &'m [&'m Manifest], misfits: &mut Vec<Misfit>) -> Catalog<'m> {
        let mut by_name = BTreeMap::new();
        for (position, manifest) in manifests.iter().enumerate() {
            let kind = manifest.body.kind();
            if let Some(other) = by_name.insert((kind, &manifest.name), position) {
                let message = format!("another {kind} has the same name");
                let remedy = "rename or remove one of them";
                let misfit = Misfit::new(position, "metadata.name", message, remedy);
                misfits.push(Misfit { other: Some(other), ..misfit });
            }
        }
        Catalog { manifests, by_name }
    }

    /// All resources of one kind, sorted by name, each with its index.
    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = (usize, &'m Name, &'m Body)> {
        let of_kind = self.by_name.range((kind, &FIRST)..).take_while(move |((of, _), _)| *of == kind);
        of_kind.map(|((_, name), position)| (*position, *name, &self.manifests[*position].body))
    }

    pub(super) fn find(&self, kind: Kind, name: &Name) -> Option<usize> {
        self.by_name.get(&(kind, name)).copied()
    }

    /// Finds the resource that `referrer` references at `path`. The resource must be in the namespace of the referrer,
    /// or a ReferenceGrant in the namespace of the resource must allow the reference.
    pub(super) fn resolve(
        &self,
        referrer: Referrer<'_>,
        path: &str,
        wanted: Wanted<'_>,
    ) -> Result<(usize, Name), Misfit> {
        let Wanted { kind, namespace, name } = wanted;
        let namespace = namespace.unwrap_or(referrer.namespace);
        let wanted = Name { namespace: namespace.to_owned(), name: name.to_owned() };
        if namespace != referrer.namespace && !self.is_granted(referrer, kind, &wanted) {
            let Referrer { kind: from, namespace: own, .. } = referrer;
            let message = format!(
                "no ReferenceGrant allows a {from} in namespace `{own}` to reference {kind} {wanted}"
            );
            let remedy =
                format!("add a ReferenceGrant to namespace `{namespace}`, from {from} in `{own}` to {kind}");
            return Err(Misfit::new(referrer.manifest, path, message, remedy));
        }
        match self.find(kind, &wanted) {
            Some(position) => Ok((position, wanted)),
            None => {
                let message = format!("unknown {kind} {wanted}");
                Err(Misfit::new(referrer.manifest, path, message, self.meant(kind, &wanted)))
            }
        }
    }

    /// The remedy for a reference to an unknown resource.
    fn meant(&self, kind: Kind, wanted: &Name) -> String {
        let names: Vec<String> = self.all(kind).map(|(_, name, _)| name.to_string()).collect();
        meant(&wanted.to_string(), names.iter().map(String::as_str))
            .unwrap_or_else(|| format!("add the {kind} to the configuration files"))
    }

    fn is_granted(&self, referrer: Referrer<'_>, kind: Kind, wanted: &Name) -> bool {
        let grants = self.all(Kind::ReferenceGrant).filter(|(_, name, _)| name.namespace == wanted.namespace);
        let mut specs = grants.filter_map(|(.., body)| match body {
            Body::ReferenceGrant(spec) => Some(spec),
            _ => None,
        });
        specs.any(|spec| {
            let is_from = spec.from.iter().any(|from| {
                from.group == referrer.kind.group()
                    && from.kind == referrer.kind.name()
                    && from.namespace == referrer.namespace
            });
            let is_to = spec.to.iter().any(|to| {
                to.group == kind.group()
                    && to.kind == kind.name()
                    && to.name.as_ref().is_none_or(|name| *name == wanted.name)
            });
            is_from && is_to
        })
    }
}

/// Suggests names for the unknown name `wanted`; `None` if there are no names.
pub(super) fn meant<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let names: Vec<&str> = names.collect();
    match nearest(wanted, names.iter().copied()) {
        Some(name) => Some(format!("did you mean `{name}`?")),
        None if names.is_empty() => None,
        None => Some(format!("known names: {}", names[..names.len().min(NAMES_MAX)].join(", "))),
    }
}
