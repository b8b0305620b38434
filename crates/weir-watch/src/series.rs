//! What is handed to the threads that push: series with samples, apart from any wire format.

use std::sync::Arc;

use crate::buckets::Buckets;
use crate::family::Family;
use crate::labels::{Pairs, Target};

/// A series.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) family: &'static Family,
    /// In the order of the names.
    pub(crate) labels: Pairs,
    /// Whom the requests are sent to.
    pub(crate) target: Arc<Target>,
    /// Since when it counts, milliseconds since the Unix epoch.
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
    /// The series ends here.
    End,
}

/// New samples of a series, in the order of their times.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    pub(crate) series: Arc<Series>,
    pub(crate) samples: Vec<Sample>,
}

/// What one request carries.
pub(crate) type Batch = Vec<Growth>;

/// Number of samples.
pub(crate) fn samples(batch: &Batch) -> u64 {
    batch.iter().map(|growth| growth.samples.len() as u64).sum()
}
