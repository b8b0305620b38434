//! What the data plane needs of a route's filters.

use std::sync::Arc;

use super::compress::CompressPolicy;
use super::cors::CorsPolicy;
use super::forms::{Redirect, Respond, WeightedBackend};
use crate::model::Route;

/// What a route does beside passing requests to one backend. Routes that do nothing else have none.
#[derive(Debug)]
pub struct Filters {
    /// The route's key, by which the next version of a table knows it again.
    pub key: String,
    /// The route; its names of backends are resolved in the other fields.
    pub route: Arc<Route>,
    /// The backends that share its requests; `None` for a route with one, or none.
    weighted: Option<Box<[WeightedPosition]>>,
    /// Where copies go.
    pub copies: Option<Copies>,
    /// What pages of other origins may do.
    pub cors: Option<CorsPolicy>,
    /// Compression of responses.
    pub compress: Option<CompressPolicy>,
}

/// A backend with its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedPosition {
    /// Position among [`crate::Table::backends`].
    pub backend: usize,
    /// Its part of the sum of all weights; with 0 it gets nothing.
    pub weight: u32,
    /// Position among [`crate::Table::series`].
    pub series: u32,
}

/// Where copies of requests go, and how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// Position among [`crate::Table::backends`].
    pub backend: usize,
    /// The part of the requests that is copied, 0 to 1.
    pub share: f64,
}

/// Who answers a route's requests.
#[derive(Clone, Copy, Debug)]
pub enum Action<'f> {
    /// The route's one backend.
    Backend,
    /// One of these in turn.
    OneOf(&'f [WeightedPosition]),
    /// Nobody: the client is sent elsewhere.
    Redirect(&'f Redirect),
    /// The gateway.
    Respond(&'f Respond),
}

impl Filters {
    /// The filters of a route that was checked; `None` where it has none. `series` are those of its backends, where it
    /// has several.
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

    /// Who answers.
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
