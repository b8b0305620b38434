//! Series and their new samples, as they are passed to the pushing threads. They do not depend on a wire format.

use std::sync::Arc;

use crate::buckets::Buckets;
use crate::family::Family;
use crate::labels::{Pairs, Target};

/// A time series: a metric with a set of labels.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) family: &'static Family,
    /// Names and values of the labels, sorted by name.
    pub(crate) labels: Pairs,
    /// Properties that all requests of the load have in common. OTLP sends them as attributes.
    pub(crate) target: Arc<Target>,
    /// When the counts of this series started, in milliseconds since the Unix epoch.
    pub(crate) since_ms: u64,
}

/// A value at a time.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// When the value was taken, in milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Number(f64),
    Buckets(Arc<Buckets>),
    /// Marks the end of the series.
    End,
}

/// New samples of a series, in order of time.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    pub(crate) series: Arc<Series>,
    pub(crate) samples: Vec<Sample>,
}

/// The content of one request.
pub(crate) type Batch = Vec<Growth>;

/// Returns the number of samples in a batch.
pub(crate) fn samples(batch: &Batch) -> u64 {
    batch.iter().map(|growth| growth.samples.len() as u64).sum()
}
