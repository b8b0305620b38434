//! Encodes series for Prometheus remote write, version 1.0 or 2.0: protobuf, compressed with snappy.

mod v1;
mod v2;

use prost::Message;

use crate::buckets::{Buckets, SCHEMA};
use crate::family::Kind;
use crate::output::Version;
use crate::series::{Batch, Growth, Value};

/// The special NaN by which Prometheus marks the end of a series.
pub(crate) const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// Returns the body of a request that writes the batch.
pub(crate) fn encode(batch: &Batch, version: Version) -> Vec<u8> {
    let bytes = match version {
        Version::V1 => v1::request(batch).encode_to_vec(),
        Version::V2 => v2::request(batch).encode_to_vec(),
    };
    // Compression fails only above 4 GiB. A batch is far smaller: it contains at most `SERIES_MAX` series.
    snap::raw::Encoder::new().compress_vec(&bytes).unwrap_or_default()
}

/// A native histogram. The message is the same in versions 1 and 2 of remote write.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) count: Option<u64>,
    #[prost(double, tag = "3")]
    pub(crate) sum: f64,
    #[prost(sint32, tag = "4")]
    pub(crate) schema: i32,
    #[prost(double, tag = "5")]
    pub(crate) zero_threshold: f64,
    #[prost(uint64, optional, tag = "6")]
    pub(crate) zero_count: Option<u64>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) positive_spans: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "12")]
    pub(crate) positive_deltas: Vec<i64>,
    /// Milliseconds since the Unix epoch.
    #[prost(int64, tag = "15")]
    pub(crate) timestamp: i64,
}

/// A range of adjacent buckets.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct BucketSpan {
    #[prost(sint32, tag = "1")]
    pub(crate) offset: i32,
    #[prost(uint32, tag = "2")]
    pub(crate) length: u32,
}

/// A value with its time. The message is the same in versions 1 and 2 of remote write.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Sample {
    #[prost(double, tag = "1")]
    pub(crate) value: f64,
    /// Milliseconds since the Unix epoch.
    #[prost(int64, tag = "2")]
    pub(crate) timestamp: i64,
}

impl Histogram {
    fn of(buckets: &Buckets, at_ms: u64) -> Self {
        let span = |span: crate::buckets::Span| BucketSpan { offset: span.offset, length: span.length };
        Self {
            count: Some(buckets.count),
            sum: buckets.sum_s,
            schema: SCHEMA,
            zero_threshold: 0.0,
            zero_count: Some(0),
            positive_spans: buckets.spans().into_iter().map(span).collect(),
            positive_deltas: buckets.deltas(),
            timestamp: at_ms as i64,
        }
    }

    /// The histogram that marks the end of a series.
    fn end(at_ms: u64) -> Self {
        Self { sum: f64::from_bits(STALE_BITS), ..Self::of(&Buckets::default(), at_ms) }
    }
}

/// The samples of a series in the wire format. A series has either numbers or histograms.
struct Points {
    samples: Vec<Sample>,
    histograms: Vec<Histogram>,
}

impl Points {
    fn of(growth: &Growth) -> Self {
        let mut points = Points { samples: Vec::new(), histograms: Vec::new() };
        let is_histogram = growth.series.family.kind == Kind::Histogram;
        for sample in &growth.samples {
            let timestamp = sample.at_ms as i64;
            match &sample.value {
                Value::Number(value) => {
                    points.samples.push(Sample { value: *value, timestamp });
                }
                Value::Buckets(buckets) => {
                    points.histograms.push(Histogram::of(buckets, sample.at_ms));
                }
                Value::End if is_histogram => {
                    points.histograms.push(Histogram::end(sample.at_ms));
                }
                Value::End => {
                    points.samples.push(Sample { value: f64::from_bits(STALE_BITS), timestamp });
                }
            }
        }
        points
    }
}

/// The number that stands for the type of a metric; it is the same in both versions.
fn type_number(kind: Kind) -> i32 {
    match kind {
        Kind::Counter => 1,
        Kind::Gauge => 2,
        Kind::Histogram => 3,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::family::{DURATION, SENT};
    use crate::labels::{Labels, Target};
    use crate::series::{Sample as Point, Series};

    fn growth(family: &'static crate::family::Family, values: Vec<Value>) -> Growth {
        let labels = Labels { run: "r".into(), gateway: "nginx".into(), ..Labels::default() }.with(&[]);
        let series = Series { family, labels, target: Arc::new(Target::default()), since_ms: 1 };
        let samples = values.into_iter().zip(1_000..).map(|(value, at_ms)| Point { at_ms, value }).collect();
        Growth { series: Arc::new(series), samples }
    }

    fn batch() -> Batch {
        let buckets = Buckets { count: 11, sum_s: 0.5, counts: [(-300, 4), (-299, 1), (-10, 6)].into() };
        vec![
            growth(&SENT, vec![Value::Number(42.0), Value::End]),
            growth(&DURATION, vec![Value::Buckets(Arc::new(buckets)), Value::End]),
        ]
    }

    fn decompressed(version: Version) -> Vec<u8> {
        snap::raw::Decoder::new().decompress_vec(&encode(&batch(), version)).unwrap()
    }

    /// Checks the parts of a request that are the same in both versions.
    fn check(samples: &[Sample], histograms: &[Histogram]) {
        assert_eq!((samples[0].value, samples[0].timestamp), (42.0, 1_000));
        assert_eq!((samples[1].value.to_bits(), samples[1].timestamp), (STALE_BITS, 1_001));
        let [histogram, end] = histograms else { panic!("{histograms:?}") };
        assert_eq!((histogram.count, histogram.sum, histogram.schema), (Some(11), 0.5, 8));
        let spans: Vec<_> = histogram.positive_spans.iter().map(|span| (span.offset, span.length)).collect();
        assert_eq!(spans, [(-300, 2), (288, 1)]);
        assert_eq!((&histogram.positive_deltas[..], histogram.timestamp), (&[4, -3, 5][..], 1_000));
        assert_eq!((end.sum.to_bits(), end.count, end.timestamp), (STALE_BITS, Some(0), 1_001));
    }

    #[test]
    fn version_1_is_read_back() {
        let request = v1::WriteRequest::decode(&decompressed(Version::V1)[..]).unwrap();
        let labels = |nth: usize| {
            let labels = request.timeseries[nth].labels.iter();
            labels.map(|label| (label.name.as_str(), label.value.as_str())).collect::<Vec<_>>()
        };
        assert_eq!(labels(0), [("__name__", SENT.name), ("gateway", "nginx"), ("run", "r")]);
        assert_eq!(labels(1)[0], ("__name__", DURATION.name));
        check(&request.timeseries[0].samples, &request.timeseries[1].histograms);
        let metadata: Vec<_> = request.metadata.iter().map(|of| (of.family.as_str(), of.kind)).collect();
        assert_eq!(metadata, [(SENT.name, 1), (DURATION.name, 3)]);
    }

    #[test]
    fn version_2_is_read_back() {
        let request = v2::Request::decode(&decompressed(Version::V2)[..]).unwrap();
        assert_eq!(request.symbols[0], "");
        let labels = |nth: usize| {
            let refs = &request.timeseries[nth].labels_refs;
            refs.iter().map(|place| request.symbols[*place as usize].as_str()).collect::<Vec<_>>()
        };
        assert_eq!(labels(0), ["__name__", SENT.name, "gateway", "nginx", "run", "r"]);
        assert_eq!(labels(1)[..2], ["__name__", DURATION.name]);
        check(&request.timeseries[0].samples, &request.timeseries[1].histograms);
        let metadata = request.timeseries[1].metadata.as_ref().unwrap();
        assert_eq!((metadata.kind, request.symbols[metadata.help_ref as usize].as_str()), (3, DURATION.help));
        let mut symbols = request.symbols.clone();
        symbols.sort();
        symbols.dedup();
        assert_eq!(symbols.len(), request.symbols.len(), "each symbol occurs once");
    }
}
