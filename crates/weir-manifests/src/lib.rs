//! Reads Gateway API resources, as applied to a cluster, and translates them to the model of `weir-config`.
//!
//! ```text
//! text --read--> Manifest ..  --translate--> Translation: (Key, Resource) .., and the origin of each
//!      (manifest.rs)            (translate.rs)
//! ```
//!
//! - A [`Manifest`] is one resource of a supported kind. Fields that a cluster adds (status, managed fields,
//!   annotations) are ignored. An unknown field of its `spec` is an error.
//! - [`translate`] takes all of them together, because routes reference gateways and gateways reference secrets.
//!   `weir-config` checks the result like any other configuration. [`Translation::locate`] maps its errors to fields of
//!   manifests.
//!
//! - Of a directory, each file has manifests or one document of the compact form. A backend or resource that two files
//!   name is an error that names both places, and so are routes of the compact form that match the same requests.
//!   Certificates and tokens are relative to the directory. Messages name compact routes by file:
//!   `shop.yaml routes[3]`. Files that are replaced while they are read are read again, so that the configuration is of
//!   one moment.
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
