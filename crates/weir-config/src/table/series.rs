//! Metrics series: requests of the same group and backend are counted together.

use std::sync::Arc;

use weir_document::Problem;

use crate::collections::FastMap;
use crate::collections::{Pages, Slots};
use crate::model::Route;

/// Maximum length of a group name in bytes.
const GROUP_BYTES_MAX: usize = 128;

/// The group that counts the requests of all groups beyond the maximum number of groups.
pub const OTHER_GROUPS: &str = "other";

/// The labels of one series: requests with the same labels are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The `metrics_group` of the routes, else the name of the backend; empty if a route has neither.
    pub group: Box<str>,
    /// The name of the backend; empty if the route itself responds, or if no backend gets the request.
    pub backend: Box<str>,
}

/// The series of all routes. A series keeps its position as long as a route uses it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeriesList {
    pub(crate) all: Pages<Arc<Series>>,
    slots: Slots,
    /// The known series, by group, then by backend.
    known: FastMap<Box<str>, FastMap<Box<str>, Counted>>,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    position: u32,
    /// Number of routes that use the series.
    uses: usize,
}

impl SeriesList {
    /// Adds one use to each series of a route, and returns their positions. A route with at most one backend has one
    /// series. With several backends, the first series counts requests that no backend gets. One series per backend
    /// follows, in order.
    pub(crate) fn take(&mut self, route: &Route) -> Vec<u32> {
        of_route(route).map(|(group, backend)| self.take_one(group, backend)).collect()
    }

    /// Removes one use from each series of a route. Releases positions without uses.
    pub(crate) fn give_back(&mut self, route: &Route) {
        of_route(route).for_each(|(group, backend)| self.give_back_one(group, backend));
    }

    fn take_one(&mut self, group: &str, backend: &str) -> u32 {
        if let Some(counted) = self.known.get_mut(group).and_then(|of_group| of_group.get_mut(backend)) {
            counted.uses += 1;
            return counted.position;
        }
        let position = self.slots.take();
        self.all.put(position, Arc::new(Series { group: group.into(), backend: backend.into() }));
        let of_group = self.known.entry(group.into()).or_default();
        of_group.insert(backend.into(), Counted { position, uses: 1 });
        position
    }

    fn give_back_one(&mut self, group: &str, backend: &str) {
        let Some(of_group) = self.known.get_mut(group) else { return };
        let Some(counted) = of_group.get_mut(backend) else { return };
        counted.uses -= 1;
        if counted.uses == 0 {
            self.all.clear(counted.position);
            self.slots.give_back(counted.position);
            of_group.remove(backend);
            if of_group.is_empty() {
                self.known.remove(group);
            }
        }
    }
}

/// The group and the backend of each series of a route, in the order of [`SeriesList::take`].
fn of_route(route: &Route) -> impl Iterator<Item = (&str, &str)> {
    let group = route.metrics_group.as_deref();
    let backend = route.backend.as_deref().unwrap_or_default();
    let is_weighted = route.backends.is_some();
    let first = if is_weighted { group.unwrap_or_default() } else { group.unwrap_or(backend) };
    let weighted = route.backends.iter().flatten().map(|weighted| weighted.backend.as_str());
    std::iter::once((first, if is_weighted { "" } else { backend }))
        .chain(weighted.map(move |backend| (group.unwrap_or(backend), backend)))
}

/// Validates `metrics_group` of the route `key`.
pub(crate) fn check_group(key: &str, group: &str) -> Result<(), Problem> {
    if group.is_empty() || group.len() > GROUP_BYTES_MAX || group.chars().any(char::is_control) {
        let message = format!("invalid group name `{}`", group.escape_debug());
        return Err(Problem::of(format!("{key}.metrics_group"), message)
            .help(format!("use 1 to {GROUP_BYTES_MAX} printable characters")));
    }
    if group == OTHER_GROUPS {
        let message = format!("`{group}` is reserved for the groups beyond the first 1000");
        return Err(
            Problem::of(format!("{key}.metrics_group"), message).help("use another name, such as `others`")
        );
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
    fn routes_with_the_same_group_and_backend_share_a_series() {
        let mut list = SeriesList::default();
        let routes = [
            route(None, Some("a"), &[]),
            route(Some("shop"), Some("a"), &[]),
            route(None, Some("a"), &[]),
            route(Some("a"), Some("a"), &[]),
            route(None, None, &["a", "b"]),
            route(Some("shop"), None, &["a", "b"]),
            route(None, None, &[]),
        ];
        let positions = routes.each_ref().map(|route| list.take(route));
        let expected: [&[u32]; 7] = [&[0], &[1], &[0], &[0], &[2, 0, 3], &[4, 1, 5], &[2]];
        assert_eq!(positions, expected);
        let shown = |list: &SeriesList| -> Vec<String> {
            list.all.iter().map(|s| format!("{}/{}", s.group, s.backend)).collect()
        };
        assert_eq!(shown(&list), ["a/a", "shop/a", "/", "b/b", "shop/", "shop/b"]);
        list.give_back(&routes[5]);
        list.give_back(&routes[0]);
        assert_eq!(shown(&list), ["a/a", "shop/a", "/", "b/b"]);
        routes.iter().enumerate().filter(|(at, _)| ![0, 5].contains(at)).for_each(|(_, r)| list.give_back(r));
        assert_eq!((shown(&list), list.known.len()), (Vec::new(), 0));
    }
}
