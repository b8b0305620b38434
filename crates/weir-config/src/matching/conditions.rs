//! Conditions of a route on method, header fields and query parameters, compiled.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::matching::Values;
use crate::matching::pattern::{Pattern, Patterns};
use crate::model::Route;
use crate::model::ValueMatch;

/// The conditions of one route. A request must meet all of them.
#[derive(Debug)]
pub(crate) struct Conditions {
    /// The method must be one of these; if empty, every method matches.
    methods: Vec<Box<str>>,
    values: ValueConditions,
}

/// Conditions on header fields and query parameters.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ValueConditions {
    /// Headers by name, in lower case.
    fields: Vec<(Box<str>, Wanted)>,
    /// Query parameters by name.
    parameters: Vec<(Box<str>, Wanted)>,
}

/// A condition on a value, which must be present.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    Exact(Box<str>),
    Pattern(Arc<Pattern>),
    Present,
}

/// A condition that a request does not meet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unmet<'c> {
    /// The method is not one of these.
    Method(&'c [Box<str>]),
    /// The header with this name lacks the wanted value.
    Field(&'c str, &'c Wanted),
    /// The query parameter with this name lacks the wanted value.
    Parameter(&'c str, &'c Wanted),
}

/// The number of conditions, ordered as in Gateway API: method, headers, query parameters. Routes with more conditions
/// are tried first.
pub(crate) type Weight = Reverse<(bool, usize, usize)>;

impl Conditions {
    /// Compiles the conditions of `route`; `None` if it has none.
    pub(crate) fn of(route: &Route, patterns: &Patterns) -> Option<Arc<Conditions>> {
        if route.methods.is_empty() && route.headers.is_empty() && route.query.is_empty() {
            return None;
        }
        let mut fields = wanted(&route.headers, patterns);
        fields.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        let methods = route.methods.iter().map(|method| method.as_str().into()).collect();
        let values = ValueConditions { fields, parameters: wanted(&route.query, patterns) };
        Some(Arc::new(Conditions { methods, values }))
    }

    /// Whether the request meets all conditions.
    pub(crate) fn hold(&self, values: &Values<'_, '_>) -> bool {
        self.unmet(values).is_none()
    }

    /// The first condition that the request does not meet.
    pub(crate) fn unmet(&self, values: &Values<'_, '_>) -> Option<Unmet<'_>> {
        let ValueConditions { fields, parameters } = &self.values;
        if !self.methods.is_empty() && !self.methods.iter().any(|method| **method == *values.request.method) {
            return Some(Unmet::Method(&self.methods));
        }
        for (name, wanted) in fields {
            if !wanted.is_met_by(values.field(name).as_deref()) {
                return Some(Unmet::Field(name, wanted));
            }
        }
        let is_unmet =
            |(name, wanted): &&(Box<str>, Wanted)| !wanted.is_met_by(values.parameter(name).as_deref());
        parameters.iter().find(is_unmet).map(|(name, wanted)| Unmet::Parameter(name, wanted))
    }

    pub(crate) fn weight(&self) -> Weight {
        Reverse((!self.methods.is_empty(), self.values.fields.len(), self.values.parameters.len()))
    }

    /// Pairs of a method and the conditions on header fields and query parameters, one pair per method. The method
    /// `None` stands for every method. Two routes for the same host and path must not share a pair.
    pub(crate) fn claims(&self) -> Vec<(Option<&str>, Option<&ValueConditions>)> {
        let values = Some(&self.values);
        match self.methods.as_slice() {
            [] => vec![(None, values)],
            methods => methods.iter().map(|method| (Some(&**method), values)).collect(),
        }
    }
}

/// Whether every request that meets `narrow` also meets `wide`.
pub(crate) fn covers(wide: Option<&Conditions>, narrow: Option<&Conditions>) -> bool {
    let (Some(wide), Some(narrow)) = (wide, narrow) else { return wide.is_none() };
    let has_methods = wide.methods.is_empty()
        || !narrow.methods.is_empty() && narrow.methods.iter().all(|method| wide.methods.contains(method));
    let has_values = |wide: &[(Box<str>, Wanted)], narrow: &[(Box<str>, Wanted)]| {
        let is_met =
            |name: &str, wanted: &Wanted| narrow.iter().any(|(n, w)| **n == *name && wanted.covers(w));
        wide.iter().all(|(name, wanted)| is_met(name, wanted))
    };
    has_methods
        && has_values(&wide.values.fields, &narrow.values.fields)
        && has_values(&wide.values.parameters, &narrow.values.parameters)
}

impl Wanted {
    /// Whether every value that meets `narrow` also meets `self`.
    fn covers(&self, narrow: &Wanted) -> bool {
        match (self, narrow) {
            (Wanted::Present, _) => true,
            (Wanted::Pattern(pattern), Wanted::Exact(exact)) => pattern.matches(exact.as_bytes()),
            (wide, narrow) => wide == narrow,
        }
    }

    fn is_met_by(&self, value: Option<&[u8]>) -> bool {
        match (self, value) {
            (_, None) => false,
            (Wanted::Present, Some(_)) => true,
            (Wanted::Exact(exact), Some(value)) => exact.as_bytes() == value,
            (Wanted::Pattern(pattern), Some(value)) => pattern.matches(value),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Exact(exact) => write!(f, "`{exact}`"),
            Wanted::Pattern(pattern) => write!(f, "a value that matches `{}`", pattern.text()),
            Wanted::Present => f.write_str("any value"),
        }
    }
}

fn wanted(values: &BTreeMap<String, ValueMatch>, patterns: &Patterns) -> Vec<(Box<str>, Wanted)> {
    let compile = |value: &ValueMatch| match value {
        ValueMatch::Value(exact) | ValueMatch::Exact { exact } => Wanted::Exact(exact.as_str().into()),
        ValueMatch::Regex { regex } => Wanted::Pattern(patterns.find(regex)),
        ValueMatch::Present { .. } => Wanted::Present,
    };
    values.iter().map(|(name, value)| (name.as_str().into(), compile(value))).collect()
}
