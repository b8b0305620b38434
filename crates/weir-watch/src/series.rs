//! Series with samples for the threads that push, independent of any wire format.

use std::sync::Arc;

use crate::buckets::Buckets;
use crate::family::Family;
use crate::labels::{Pairs, Target};

/// A series.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) family: &'static Family,
    /// Sorted by name.
    pub(crate) labels: Pairs,
    /// The target of the requests.
    pub(crate) target: Arc<Target>,
    /// Start of its counts, milliseconds since the Unix epoch.
    pub(crate) since_ms: u64,
}

/// A value at a time.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Number(f64),
    Buckets(Arc<Buckets>),
    /// The end of the series.
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

/// Number of samples.
pub(crate) fn samples(batch: &Batch) -> u64 {
    batch.iter().map(|growth| growth.samples.len() as u64).sum()
}
