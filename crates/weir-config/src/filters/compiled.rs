//! Filters in the form that the data plane uses.

use std::sync::Arc;

use super::compress::CompressPolicy;
use super::cors::CorsPolicy;
use super::forms::{Redirect, Respond, WeightedBackend};
use crate::model::Route;

/// The filters of a route. Routes that only forward to one backend have none.
#[derive(Debug)]
pub struct Filters {
    /// The key of the route. It is the same in all versions of the configuration.
    pub key: String,
    /// The configured route, with the names of its backends. The other fields contain positions instead of names.
    pub route: Arc<Route>,
    /// The backends that share the requests; `None` if the route does not set `backends`.
    weighted: Option<Box<[WeightedPosition]>>,
    /// Settings of `mirror`.
    pub copies: Option<Copies>,
    /// Settings of `cors`.
    pub cors: Option<CorsPolicy>,
    /// Settings of `compress`.
    pub compress: Option<CompressPolicy>,
}

/// One of several backends that share the requests of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedPosition {
    /// Position among [`crate::Table::backends`].
    pub backend: usize,
    /// The backend gets this share of requests: its weight divided by the sum of all weights. With 0 it gets no
    /// requests.
    pub weight: u32,
    /// Index in [`crate::Table::series`] of the series that counts requests to this backend.
    pub series: u32,
}

/// Which backend gets copies of requests, and what share of the requests is copied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// Position among [`crate::Table::backends`].
    pub backend: usize,
    /// Share of requests that are copied, 0 to 1.
    pub share: f64,
}

/// What handles the requests of a route.
#[derive(Clone, Copy, Debug)]
pub enum Action<'f> {
    /// The backend of the route.
    Backend,
    /// One of these backends, by weight.
    OneOf(&'f [WeightedPosition]),
    /// A redirect.
    Redirect(&'f Redirect),
    /// A fixed response.
    Respond(&'f Respond),
}

impl Filters {
    /// Compiles the filters of a valid route; `None` if it has none. `position` returns the position of a backend.
    /// `series` are the positions of the metrics series of `backends`, in the same order.
    pub(crate) fn of(
        key: &str,
        route: &Arc<Route>,
        position: impl Fn(&str) -> usize,
        series: &[u32],
    ) -> Option<Filters> {
        let rewrites = route.rewrite.as_ref().is_some_and(|r| r.host().is_some() || r.path().is_some());
        let has_any = rewrites
            || route.backends.is_some()
            || route.redirect.is_some()
            || route.respond.is_some()
            || route.request_headers.is_some()
            || route.response_headers.is_some()
            || route.cors.is_some()
            || route.compress.is_some()
            || route.mirror.is_some()
            || route.timeouts.is_some()
            || route.retries.is_some();
        if !has_any {
            return None;
        }
        let weigh = |(w, &series): (&WeightedBackend, &u32)| WeightedPosition {
            backend: position(&w.backend),
            weight: w.weight,
            series,
        };
        Some(Filters {
            key: key.to_owned(),
            route: Arc::clone(route),
            weighted: route
                .backends
                .as_ref()
                .map(|backends| backends.iter().zip(series).map(weigh).collect()),
            copies: route
                .mirror
                .as_ref()
                .map(|mirror| Copies { backend: position(&mirror.backend), share: mirror.share.0 }),
            cors: route.cors.as_deref().map(CorsPolicy::of),
            compress: route.compress.as_deref().map(CompressPolicy::of),
        })
    }

    /// What handles the requests of the route.
    pub fn action(&self) -> Action<'_> {
        if let Some(redirect) = &self.route.redirect {
            Action::Redirect(redirect)
        } else if let Some(respond) = &self.route.respond {
            Action::Respond(respond)
        } else {
            self.weighted.as_deref().map_or(Action::Backend, Action::OneOf)
        }
    }
}
