//! Which requests are counted together: those of one group and one backend.

use crate::model::Route;
use crate::paths::FastMap;
use crate::problem::Problem;

/// The longest name of a group.
const GROUP_BYTES_MAX: usize = 128;

/// Requests that are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The `metrics_group` of their routes, or the backend's name; empty where there is neither.
    pub group: Box<str>,
    /// The backend's name; empty where routes answer by themselves.
    pub backend: Box<str>,
}

/// All series of a table, in the making.
#[derive(Debug, Default)]
pub(crate) struct SeriesList {
    all: Vec<Series>,
    /// The positions of those that routes with one backend or none share, by group and backend.
    shared: FastMap<Box<str>, FastMap<Box<str>, u32>>,
}

impl SeriesList {
    /// The position of the series of a route. Where it has several backends that is for requests that none of them gets,
    /// and those of the backends follow in their order.
    pub(crate) fn of_route(&mut self, route: &Route) -> u32 {
        let Some(weighted) = &route.backends else {
            return self.shared(route.metrics_group.as_deref(), route.backend.as_deref().unwrap_or_default());
        };
        let first = self.all.len() as u32;
        let group = route.metrics_group.as_deref().unwrap_or_default();
        self.all.push(Series { group: group.into(), backend: "".into() });
        for backend in weighted {
            let group = route.metrics_group.as_deref().unwrap_or(&backend.backend);
            self.all.push(Series { group: group.into(), backend: backend.backend.as_str().into() });
        }
        first
    }

    pub(crate) fn into_boxed_slice(self) -> Box<[Series]> {
        self.all.into_boxed_slice()
    }

    fn shared(&mut self, group: Option<&str>, backend: &str) -> u32 {
        let group = group.unwrap_or(backend);
        if let Some(&position) = self.shared.get(group).and_then(|of_group| of_group.get(backend)) {
            return position;
        }
        let position = self.all.len() as u32;
        self.all.push(Series { group: group.into(), backend: backend.into() });
        self.shared.entry(group.into()).or_default().insert(backend.into(), position);
        position
    }
}

/// Whether the group that the route `key` names is one that a label can hold.
pub(crate) fn check_group(key: &str, group: &str) -> Result<(), Problem> {
    if group.is_empty() || group.len() > GROUP_BYTES_MAX || group.chars().any(char::is_control) {
        let message = format!("`{}` is not a name for a group", group.escape_debug());
        return Err(Problem::new(format!("{key}.metrics_group"), message)
            .help(format!("use 1 to {GROUP_BYTES_MAX} printable characters")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::WeightedBackend;

    fn route(group: Option<&str>, backend: Option<&str>, weighted: &[&str]) -> Route {
        let weigh = |name: &&str| WeightedBackend { backend: (*name).to_owned(), weight: 1 };
        Route {
            metrics_group: group.map(str::to_owned),
            backend: backend.map(str::to_owned),
            backends: (!weighted.is_empty()).then(|| weighted.iter().map(weigh).collect()),
            ..Route::default()
        }
    }

    #[test]
    fn routes_of_one_group_and_backend_share_a_series() {
        let mut list = SeriesList::default();
        let positions = [
            list.of_route(&route(None, Some("a"), &[])),
            list.of_route(&route(Some("shop"), Some("a"), &[])),
            list.of_route(&route(None, Some("a"), &[])),
            list.of_route(&route(Some("a"), Some("a"), &[])),
            list.of_route(&route(None, None, &["a", "b"])),
            list.of_route(&route(Some("shop"), None, &["a", "b"])),
            list.of_route(&route(None, None, &[])),
        ];
        assert_eq!(positions, [0, 1, 0, 0, 2, 5, 8]);
        let told: Vec<String> =
            list.into_boxed_slice().iter().map(|s| format!("{}/{}", s.group, s.backend)).collect();
        assert_eq!(told, ["a/a", "shop/a", "/", "a/a", "b/b", "shop/", "shop/a", "shop/b", "/"]);
    }
}
