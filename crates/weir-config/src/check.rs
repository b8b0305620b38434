//! Validation of single resources. How resources fit together is checked in [`crate::resources`].

use weir_document::Problem;

use crate::change::Resource;
use crate::model::settings;

mod backend;
mod listener;
mod route;

pub(crate) use backend::unknown_backend;

/// The problems of a resource, at most one of each of its parts. `key` names the resource in messages.
pub(crate) fn check(key: &str, resource: &Resource) -> Vec<Problem> {
    match resource {
        Resource::Settings(settings) => settings::check(settings),
        Resource::Route(route) => route::check(key, route),
        Resource::Listener(listener) => listener::check(key, listener),
        Resource::Backend(backend) => backend::check(key, backend).err().into_iter().collect(),
        // The resources that name a file read it.
        Resource::File(_) => Vec::new(),
    }
}
