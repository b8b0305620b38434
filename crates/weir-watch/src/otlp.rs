//! Encodes series for OTLP over HTTP (`opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest`).

mod messages;

use prost::Message;

use self::messages::{
    AnyValue, Buckets as WireBuckets, Data, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge,
    InstrumentationScope, KeyValue, Metric, MetricsRequest, MetricsResponse, NumberDataPoint, NumberValue,
    Resource, ResourceMetrics, ScopeMetrics, SomeValue, Sum,
};
use crate::buckets::{Buckets, SCHEMA};
use crate::family::{DURATION, Family, Kind};
use crate::labels::LABELS;
use crate::series::{Batch, Growth, Series, Value};

/// The constant `AGGREGATION_TEMPORALITY_CUMULATIVE` of OTLP: counts start at the start of the series.
const CUMULATIVE: i32 = 2;
/// The constant `DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK` of OTLP, which marks the end of a series.
const NO_RECORDED_VALUE: u32 = 1;
const NS_PER_MS: u64 = 1_000_000;

/// Returns the body of a request that writes the batch.
pub(crate) fn encode(batch: &Batch) -> Vec<u8> {
    request(batch).encode_to_vec()
}

/// Returns how many data points the receiver has rejected, and its message. `None` if it has rejected none.
pub(crate) fn rejected(body: &[u8]) -> Option<(u64, String)> {
    let partial = MetricsResponse::decode(body).ok()?.partial_success?;
    let count = u64::try_from(partial.rejected_data_points).ok().filter(|count| *count > 0)?;
    Some((count, partial.error_message))
}

fn request(batch: &Batch) -> MetricsRequest {
    let mut metrics: Vec<Metric> = Vec::new();
    for growth in batch {
        let family = growth.series.family;
        let place = metrics.iter().position(|metric| metric.name == family.otlp_name);
        let place = place.unwrap_or_else(|| {
            metrics.push(empty(family));
            metrics.len() - 1
        });
        add(&mut metrics[place].data, growth);
    }
    let scope = InstrumentationScope { name: "weir".into(), version: env!("CARGO_PKG_VERSION").into() };
    let resource = Resource { attributes: vec![text("service.name", "weir")] };
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics }];
    MetricsRequest { resource_metrics: vec![ResourceMetrics { resource: Some(resource), scope_metrics }] }
}

fn empty(family: &Family) -> Metric {
    let data = match family.kind {
        Kind::Counter => {
            Data::Sum(Sum { data_points: vec![], aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
        Kind::Gauge => Data::Gauge(Gauge { data_points: vec![] }),
        Kind::Histogram => Data::ExponentialHistogram(ExponentialHistogram {
            data_points: vec![],
            aggregation_temporality: CUMULATIVE,
        }),
    };
    let (name, description, unit) = (family.otlp_name.into(), family.help.into(), family.unit.into());
    Metric { name, description, unit, data: Some(data) }
}

fn add(data: &mut Option<Data>, Growth { series, samples }: &Growth) {
    let attributes = attributes(series);
    for sample in samples {
        let times = Times {
            start_ns: series.since_ms * NS_PER_MS,
            at_ns: sample.at_ms * NS_PER_MS,
            is_end: matches!(sample.value, Value::End),
        };
        match data {
            Some(Data::Sum(Sum { data_points, .. }) | Data::Gauge(Gauge { data_points })) => {
                data_points.push(number(&sample.value, &times, attributes.clone()));
            }
            Some(Data::ExponentialHistogram(histogram)) => {
                histogram.data_points.push(buckets(&sample.value, &times, attributes.clone()));
            }
            None => {}
        }
    }
}

struct Times {
    start_ns: u64,
    at_ns: u64,
    /// Whether the data point marks the end of the series.
    is_end: bool,
}

impl Times {
    fn flags(&self) -> u32 {
        if self.is_end { NO_RECORDED_VALUE } else { 0 }
    }
}

fn number(value: &Value, times: &Times, attributes: Vec<KeyValue>) -> NumberDataPoint {
    let value = match value {
        Value::Number(value) => Some(NumberValue::AsDouble(*value)),
        Value::Buckets(_) | Value::End => None,
    };
    NumberDataPoint {
        start_time_unix_nano: times.start_ns,
        time_unix_nano: times.at_ns,
        value,
        attributes,
        flags: times.flags(),
    }
}

fn buckets(value: &Value, times: &Times, attributes: Vec<KeyValue>) -> ExponentialHistogramDataPoint {
    let nothing = Buckets::default();
    let of = match value {
        Value::Buckets(buckets) => buckets.as_ref(),
        Value::Number(_) | Value::End => &nothing,
    };
    let (first, bucket_counts) = of.dense();
    ExponentialHistogramDataPoint {
        attributes,
        start_time_unix_nano: times.start_ns,
        time_unix_nano: times.at_ns,
        count: of.count,
        sum: Some(of.sum_s),
        scale: SCHEMA,
        zero_count: 0,
        // OTLP numbers buckets by their lower bound, Prometheus by their upper bound.
        positive: Some(WireBuckets { offset: first - 1, bucket_counts }),
        flags: times.flags(),
    }
}

/// The labels of a series under the names that OpenTelemetry's conventions give them.
fn attributes(series: &Series) -> Vec<KeyValue> {
    let is_request = series.family.name == DURATION.name;
    let own = series.labels.iter().filter(|(_, value)| !value.is_empty());
    let own = own.filter_map(|(name, value)| {
        let label = LABELS.iter().find(|label| label.name == *name)?;
        Some(text(label.otlp_name, value))
    });
    let target = &series.target;
    let texts = [
        ("server.address", &target.address),
        ("http.request.method", &target.method),
        ("url.scheme", &target.scheme),
    ];
    let texts = texts.into_iter().filter_map(|(name, value)| Some(text(name, value.as_deref()?)));
    let port = target.port.map(|port| KeyValue {
        key: "server.port".into(),
        value: Some(AnyValue { value: Some(SomeValue::Int(port.into())) }),
    });
    own.chain(texts.chain(port).filter(|_| is_request)).collect()
}

fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(SomeValue::Text(value.to_owned())) });
    KeyValue { key: key.to_owned(), value }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::buckets::tests::upper;
    use crate::family::{CPU_CORES, ERRORS};
    use crate::labels::{Labels, Target};
    use crate::series::Sample;

    fn growth(family: &'static Family, more: &[(&'static str, &str)], values: Vec<Value>) -> Growth {
        let labels = Labels { run: "r".into(), ..Labels::default() }.with(more);
        let target = Target { address: Some("a.example".into()), port: Some(8_080), ..Target::default() };
        let series = Series { family, labels, target: Arc::new(target), since_ms: 1 };
        let samples = values.into_iter().zip(5..).map(|(value, at_ms)| Sample { at_ms, value }).collect();
        Growth { series: Arc::new(series), samples }
    }

    #[test]
    fn a_request_is_read_back() {
        let counts = Buckets { count: 7, sum_s: 1.5, counts: [(-3, 5), (-1, 2)].into() };
        let batch = vec![
            growth(&ERRORS, &[("class", "failed")], vec![Value::Number(3.0), Value::End]),
            growth(&ERRORS, &[("class", "dropped")], vec![Value::Number(4.0)]),
            growth(&CPU_CORES, &[("role", "data")], vec![Value::Number(0.5)]),
            growth(&DURATION, &[], vec![Value::Buckets(Arc::new(counts))]),
        ];
        let request = MetricsRequest::decode(&encode(&batch)[..]).unwrap();
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let names: Vec<_> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names, ["weir.load.errors", "weir.part.cpu", "http.client.request.duration"]);
        let Some(Data::Sum(errors)) = &metrics[0].data else { panic!("{:?}", metrics[0]) };
        assert!(errors.is_monotonic && errors.aggregation_temporality == CUMULATIVE);
        let points: Vec<_> =
            errors.data_points.iter().map(|point| (point.value.clone(), point.flags)).collect();
        let value = |value| Some(NumberValue::AsDouble(value));
        assert_eq!(points, [(value(3.0), 0), (None, NO_RECORDED_VALUE), (value(4.0), 0)]);
        let point = &errors.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1_000_000, 5_000_000));
        assert_eq!(point.attributes, [text("error.type", "failed"), text("weir.run", "r")]);
        let Some(Data::ExponentialHistogram(histogram)) = &metrics[2].data else { panic!() };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum, point.scale), (7, Some(1.5), SCHEMA));
        let positive = point.positive.as_ref().unwrap();
        assert_eq!(positive.bucket_counts, [5, 0, 2]);
        // In OpenTelemetry, bucket i contains values above base^i.
        let lower = (f64::from(positive.offset) / f64::from(1 << SCHEMA)).exp2();
        assert_eq!(lower, upper(-3 - 1));
        let keys: Vec<_> = point.attributes.iter().map(|pair| pair.key.as_str()).collect();
        assert_eq!(keys, ["weir.run", "server.address", "server.port"]);
    }

    #[test]
    fn rejected_points_are_counted() {
        let response = |count, message: &str| {
            let partial =
                messages::PartialSuccess { rejected_data_points: count, error_message: message.into() };
            MetricsResponse { partial_success: Some(partial) }.encode_to_vec()
        };
        assert_eq!(rejected(&response(3, "no scope")), Some((3, "no scope".into())));
        assert_eq!(rejected(&response(0, "a warning")), None);
        assert_eq!(rejected(&[]), None);
        assert_eq!(rejected(b"<html>"), None);
    }
}
