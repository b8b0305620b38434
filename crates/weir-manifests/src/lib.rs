//! Reads Gateway API resources in the form in which they are applied to a cluster, and translates them to the model of
//! `weir-config`: its resources with their keys.
//!
//! ```text
//! text --read--> Manifest ..  --translate--> Translation: (Key, Resource) .., and the origin of each
//!      (manifest.rs)            (translate.rs)
//! ```
//!
//! - A [`Manifest`] is one resource of a supported kind. Fields that a cluster adds (status, managed fields,
//!   annotations) are ignored. An unknown field of its `spec` is an error.
//! - [`translate`] takes all manifests together, because routes reference gateways and gateways reference secrets.
//!   `weir-config` checks the result like any other configuration. [`Translation::locate`] maps its errors to fields of
//!   manifests.
//!
//! `weir-control` reads a directory of configuration files. In it, each file contains either manifests or one document
//! of weir's compact form. If two files define the same backend or resource, the error names both places; likewise for
//! two compact routes that match the same requests. File names of certificates and tokens are relative to the
//! directory. Messages name compact routes by file: `shop.yaml routes[3]`. If files are replaced while they are read,
//! they are read again, so that the configuration is a consistent snapshot.
//!
//! This crate does no I/O and does not connect to a cluster.

mod backend;
mod duration;
mod filter;
mod gateway;
mod kind;
mod manifest;
mod origin;
mod reference;
mod route;
mod secret;
mod stream;
mod text;
mod translate;

pub use kind::{CONTROLLER, GROUP};
pub use manifest::Manifest;
pub use stream::{Read, has_manifests, read};
pub use translate::{Misfit, Translation, translate};
