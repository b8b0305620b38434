//! Gateway API's resources as they would be applied to a cluster, translated into what `weir-config` knows.
//!
//! ```text
//! text --read--> Manifest ..  --translate--> Translation: (Key, Resource) .., and where each came from
//!      (manifest.rs)            (translate.rs)
//! ```
//!
//! - A [`Manifest`] is one resource of a kind that is known. What a cluster adds to it (status, managed fields,
//!   annotations) is passed over; a field of its `spec` that is not known is an error.
//! - [`translate`] takes all of them together, as routes name gateways and gateways name secrets. What it makes is checked
//!   by `weir-config` like any other configuration; [`Translation::locate`] tells the field of the manifest that an error
//!   of it is about.
//!
//! This crate does no I/O, and knows of no cluster.

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
