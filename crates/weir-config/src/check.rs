//! Validation of single resources. [`crate::resources`] checks whether resources are consistent with each other.

use weir_document::Problem;

use crate::change::Resource;
use crate::model::settings;

mod backend;
mod listener;
mod route;

pub(crate) use backend::unknown_backend;

/// Validates a resource on its own. Returns at most one problem per section of the resource. `key` names the resource
/// in messages.
pub(crate) fn check(key: &str, resource: &Resource) -> Vec<Problem> {
    match resource {
        Resource::Settings(settings) => settings::check(settings),
        Resource::Route(route) => route::check(key, route),
        Resource::Listener(listener) => listener::check(key, listener),
        Resource::Backend(backend) => backend::check(key, backend).err().into_iter().collect(),
        // The content of a file is validated together with the resources that name it.
        Resource::File(_) => Vec::new(),
    }
}
