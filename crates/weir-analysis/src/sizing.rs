//! Computes the number of instances for a rate (`docs/method.md#sizing`), from measured load points and their
//! intervals. Nothing is extrapolated unless requested, and extrapolated results are marked.
//!
//! An *instance type* is a gateway with one value of each axis except the rate. Each type is sized on its own. If a
//! capacity search has the requested objective, its result is the answer ([`SearchedFor`]). The report's HTML page
//! computes the same in `assets/sizing.js`, from the same [`InstanceType`]s; an end-to-end test compares both.

mod answer;
mod extrapolation;
mod instance_type;
mod searched;
mod standing;
mod words;

use serde::Serialize;
use weir_results::{Objective, Run};

use crate::points::axes::Axes;
use crate::summary::Summary;

pub use instance_type::{InstanceType, RatePoint, Shown, instance_types};
pub use searched::SearchedFor;

/// Hours per month in costs: a twelfth of 365 days.
pub const HOURS_PER_MONTH: f64 = 730.0;

/// Forecast times, in months from now. If the rate grows, weir also computes the number of instances for these times.
pub const MONTHS_AHEAD: [u32; 2] = [12, 24];

/// The input of a sizing: the request rate, the limits to meet, and the price.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Requests per second that all instances carry together.
    pub rate_per_s: f64,
    /// The bounds to meet; `None` uses the objective of each instance type in its run.
    pub bounds: Option<Vec<Bound>>,
    /// Maximum share of its CPU limit that an instance may use, 0 to 1.
    pub cpu_share_max: Option<f64>,
    /// Number of spare instances to add.
    pub spare: u32,
    /// Price of an instance or core; if `None`, no cost is computed.
    pub price: Option<Price>,
    /// Growth of the rate per year, as a share: 0.2 is 20 %. With `None`, weir computes the instances for `rate_per_s`
    /// only.
    pub growth_per_year: Option<f64>,
    /// Whether weir may extrapolate from the CPU time per request to an unmeasured rate: the rate at which an instance
    /// reaches `cpu_share_max`.
    pub extrapolate: bool,
}

/// The maximum allowed value of a metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// A name of [`crate::LATENCIES`], or `errors`.
    pub name: String,
    /// The limit: nanoseconds for a latency, a share for errors.
    pub limit: f64,
}

/// A price per hour, in any currency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// Price for one hour.
    pub per_hour: f64,
    /// What one price covers: an instance or a core.
    pub of: PriceOf,
}

/// What a price pays for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriceOf {
    /// One instance, whatever its CPU limit.
    Instance,
    /// One core of an instance's CPU limit.
    Core,
}

/// The answer: all instance types, cheapest first, types without an answer last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// The demand for which the offers are computed.
    pub demand: Demand,
    /// Instance types, sorted by cost if there is a price, else by number of instances.
    pub offers: Vec<Offer>,
}

/// The result for an instance type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offer {
    /// Name of the gateway.
    pub gateway: String,
    /// The axes in words, followed by the load if the gateway has several kinds of load with the same axes. May be
    /// empty.
    pub setting: String,
    /// Values of the axes, without the rate.
    pub axes: Axes,
    /// Limits on latency and errors that the instances must meet.
    pub bounds: Vec<Bound>,
    /// The number of instances, or why there is no answer.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The number of instances, or why there is no answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// A number of instances.
    Sized(Box<Sized>),
    /// The reason why there is no answer.
    Refused(Refused),
}

/// The number of instances, and its basis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sized {
    /// Requests per second per instance.
    pub rate_per_s: Span,
    /// What `rate_per_s` is based on.
    pub basis: Basis,
    /// Share of its CPU limit that an instance uses at `rate_per_s`. `None` without a limit or a valid value, or if the
    /// rate comes from a capacity search.
    pub cpu_share: Option<f64>,
    /// Instances, including spare ones.
    pub instances: Count,
    /// Future instances, one entry per value of [`MONTHS_AHEAD`]; empty if the demand has no growth.
    pub later: Vec<Later>,
    /// Cost of the instances. `None` if there is no price, or if the price is per core and the instance has no CPU
    /// limit.
    pub cost: Option<Cost>,
    /// Sentences for the reader: how the rate was found and what limits it.
    pub notes: Vec<String>,
}

/// How a rate per instance was determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The highest measured rate that meets the bounds. At least one higher rate was measured and does not meet them.
    Measured,
    /// A lower bound of the rate. Either the highest measured rate that meets the bounds, if no higher rate has a known
    /// result, or the capacity from a search with stricter bounds.
    AtLeast,
    /// A capacity search with exactly these bounds.
    Searched,
    /// Extrapolated from a measured rate. CPU time per request is assumed to be constant up to the allowed CPU share.
    Extrapolated,
}

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    /// The value itself.
    pub value: f64,
    /// The lower end of the value's 95 % interval.
    pub low: f64,
    /// The upper end of the value's 95 % interval.
    pub high: f64,
}

/// A number of instances. Its interval follows from the interval of the rate per instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Number of instances if each carries the mean rate per instance.
    pub value: u64,
    /// The number of instances if each carries the upper end of its rate interval.
    pub low: u64,
    /// The number of instances if each carries only the lower end of its rate interval.
    pub high: u64,
}

/// The number of instances at a future date, after the rate has grown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Later {
    /// Number of months from now.
    pub months: u32,
    /// The rate after these months, requests per second.
    pub rate_per_s: f64,
    /// Instances, including spare ones.
    pub instances: Count,
}

/// Cost of the instances, in the currency of the price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Cost per month of [`HOURS_PER_MONTH`] hours.
    pub per_month: Span,
    /// Cost per million requests, if the demanded rate arrives all month.
    pub per_million: Span,
}

/// Why an instance type has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The kind of reason.
    pub why: RefusedFor,
    /// The reason in words, with values.
    pub words: String,
    /// What the user can measure to get an answer.
    pub remedy: String,
}

/// Why an instance type cannot be sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusedFor {
    /// No open load at a constant rate was measured, and no capacity search covers the bounds.
    NothingMeasured,
    /// The lowest rate already misses the bounds.
    NeverMet,
    /// At the lowest rate, the confidence interval of a metric includes its limit.
    Borderline,
    /// The value at the lowest rate is invalid or unknown.
    Unknown,
    /// The lowest rate already uses more CPU than allowed.
    CpuAbove,
}

/// Sizes every instance type of a run.
pub fn size(run: &Run, summary: &Summary, demand: Demand) -> Sizing {
    let types = instance_types(run, summary);
    let mut offers: Vec<Offer> = types.iter().map(|of| offer(of, &demand)).collect();
    // The sort is stable: offers with the same rank keep the order of the scenario.
    offers.sort_by(|a, b| a.outcome.rank().total_cmp(&b.outcome.rank()));
    Sizing { demand, offers }
}

fn offer(of: &InstanceType, demand: &Demand) -> Offer {
    let bounds = demand.bounds.as_ref().unwrap_or(&of.bounds).clone();
    Offer {
        gateway: of.gateway.clone(),
        setting: of.setting.clone(),
        axes: of.axes.clone(),
        outcome: answer::answer(of, &bounds, demand),
        bounds,
    }
}

impl Outcome {
    /// The sort key of offers: the cost, else the number of instances. Offers without an answer come last.
    fn rank(&self) -> f64 {
        match self {
            Self::Sized(sized) => match &sized.cost {
                Some(cost) => cost.per_month.value,
                None => sized.instances.value as f64,
            },
            Self::Refused(_) => f64::INFINITY,
        }
    }
}

impl Sizing {
    /// Names of the gateways for which no instance type has an answer.
    pub fn unanswered(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for offer in &self.offers {
            let same = |other: &&Offer| other.gateway == offer.gateway;
            let is_sized = |other: &Offer| matches!(other.outcome, Outcome::Sized(_));
            if !names.contains(&offer.gateway.as_str()) && !self.offers.iter().filter(same).any(is_sized) {
                names.push(&offer.gateway);
            }
        }
        names
    }
}

/// The bounds of an objective: latencies by name, then errors.
pub fn bounds_of(objective: &Objective) -> Vec<Bound> {
    let latency = objective.latency_ns.iter();
    let latency = latency.map(|(name, limit)| Bound { name: name.clone(), limit: *limit as f64 });
    let errors = objective.errors.map(|limit| Bound { name: "errors".into(), limit });
    latency.chain(errors).collect()
}
