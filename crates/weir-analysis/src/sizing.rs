//! How many instances carry a rate (`docs/method.md#sizing`): from load points that were measured, with their intervals carried
//! through. Nothing is extrapolated unless that is asked for, and then it is marked.
//!
//! An *instance type* is a gateway at one point of the axes: its limits and what else varies, but for the rate. Each is
//! sized by itself. Where a capacity was searched for at what is asked, that is the answer ([`SearchedFor`]). The page of a report has the same in `assets/sizing.js`, computed from the same [`InstanceType`]s;
//! an end-to-end test compares the two.

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

/// Hours of a month in costs: a twelfth of 365 days.
pub const HOURS_PER_MONTH: f64 = 730.0;

/// Months ahead for which a growing rate is sized.
pub const MONTHS_AHEAD: [u32; 2] = [12, 24];

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Requests per second that all instances together carry.
    pub rate_per_s: f64,
    /// What has to be kept; `None` is what each instance type has to keep in its run.
    pub bounds: Option<Vec<Bound>>,
    /// Greatest share of its CPU limit that an instance may use, 0..=1.
    pub cpu_share_max: Option<f64>,
    /// Instances beyond those that carry the rate.
    pub spare: u32,
    /// What an instance costs.
    pub price: Option<Price>,
    /// Growth of the rate in a year, as share of it.
    pub growth_per_year: Option<f64>,
    /// Whether the rate at `cpu_share_max` may be taken from the CPU time per request where it was not measured.
    pub extrapolate: bool,
}

/// The greatest allowed value of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// A name of [`crate::LATENCIES`], or `errors`.
    pub name: String,
    /// Nanoseconds, or a share.
    pub limit: f64,
}

/// What an hour costs, in whichever currency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// The price of an hour.
    pub per_hour: f64,
    /// Of what.
    pub of: PriceOf,
}

/// What a price is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriceOf {
    /// An instance, whatever its limits are.
    Instance,
    /// A core of its CPU limit.
    Core,
}

/// The answer: every instance type, the cheapest first, and those without an answer last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// What was asked.
    pub demand: Demand,
    /// Instance types; with a price by their cost, else by their number.
    pub offers: Vec<Offer>,
}

/// What an instance type comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offer {
    /// The gateway.
    pub gateway: String,
    /// Its axes in words, and its load where a run has several kinds; empty where there is nothing to tell apart.
    pub setting: String,
    /// Values of the axes.
    pub axes: Axes,
    /// What had to be kept.
    pub bounds: Vec<Bound>,
    /// How many, or why there is no answer.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// How many instances, or why that cannot be said.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// So many.
    Sized(Box<Sized>),
    /// No answer.
    Refused(Refused),
}

/// How many instances, and what that rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sized {
    /// Requests per second that one instance carries.
    pub rate_per_s: Span,
    /// Where that comes from.
    pub basis: Basis,
    /// Share of its CPU limit that an instance uses there; `None` where it has none, or that does not count.
    pub cpu_share: Option<f64>,
    /// Instances, with the spare ones.
    pub instances: Count,
    /// The same for the grown rate.
    pub later: Vec<Later>,
    /// What they cost.
    pub cost: Option<Cost>,
    /// What has to be known about it, in sentences.
    pub notes: Vec<String>,
}

/// What a rate per instance rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The highest measured rate that keeps what is asked, with one above it that does not.
    Measured,
    /// The highest measured rate of all, or a capacity that was searched for with more asked: more may be carried.
    AtLeast,
    /// A capacity that was searched for at just what is asked.
    Searched,
    /// CPU time per request at a measured rate, taken to stay the same up to the CPU share that is allowed.
    Extrapolated,
}

/// A figure with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    /// The figure.
    pub value: f64,
    /// The low end of its 95 % interval.
    pub low: f64,
    /// The high end.
    pub high: f64,
}

/// A number of instances with its interval: what the ends of the rate's interval give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The number.
    pub value: u64,
    /// With the high end of the rate per instance.
    pub low: u64,
    /// With its low end.
    pub high: u64,
}

/// Instances for a rate that has grown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Later {
    /// Months from now.
    pub months: u32,
    /// The rate then.
    pub rate_per_s: f64,
    /// Instances, with the spare ones.
    pub instances: Count,
}

/// What instances cost, in the currency of the price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// In a month of [`HOURS_PER_MONTH`].
    pub per_month: Span,
    /// For a million requests, at the asked rate all month.
    pub per_million: Span,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Of which kind.
    pub why: RefusedFor,
    /// With its figures.
    pub words: String,
    /// What to measure instead.
    pub remedy: String,
}

/// Why an instance type cannot be sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusedFor {
    /// No open load at a steady rate was measured, nor was a capacity searched for at what is asked.
    NothingMeasured,
    /// What is asked is missed at the least rate already.
    NeverMet,
    /// The interval at the least rate holds the limit.
    Borderline,
    /// The figure at the least rate does not count, or is not known.
    Unknown,
    /// More CPU than is allowed is used at the least rate already.
    CpuAbove,
}

/// Sizes every instance type of a run.
pub fn size(run: &Run, summary: &Summary, demand: Demand) -> Sizing {
    let types = instance_types(run, summary);
    let mut offers: Vec<Offer> = types.iter().map(|of| offer(of, &demand)).collect();
    // The sort is stable: equals keep the order of the scenario.
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
    /// What offers are sorted by: cost, else instances; what has no answer comes last.
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
    /// Gateways of which no instance type has an answer.
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
