//! The OTLP 1 messages for metrics, with only the fields that weir uses.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricsResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected_data_points: i64,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) description: String,
    #[prost(string, tag = "3")]
    pub(super) unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 10")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "10")]
    ExponentialHistogram(ExponentialHistogram),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<NumberDataPoint>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<NumberDataPoint>,
    #[prost(int32, tag = "2")]
    pub(super) aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub(super) is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NumberDataPoint {
    #[prost(fixed64, tag = "2")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    #[prost(oneof = "NumberValue", tags = "4")]
    pub(super) value: Option<NumberValue>,
    #[prost(message, repeated, tag = "7")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "8")]
    pub(super) flags: u32,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum NumberValue {
    #[prost(double, tag = "4")]
    AsDouble(f64),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExponentialHistogram {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<ExponentialHistogramDataPoint>,
    #[prost(int32, tag = "2")]
    pub(super) aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExponentialHistogramDataPoint {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    pub(super) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(super) sum: Option<f64>,
    #[prost(sint32, tag = "6")]
    pub(super) scale: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) zero_count: u64,
    #[prost(message, optional, tag = "8")]
    pub(super) positive: Option<Buckets>,
    #[prost(uint32, tag = "10")]
    pub(super) flags: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Buckets {
    #[prost(sint32, tag = "1")]
    pub(super) offset: i32,
    #[prost(uint64, repeated, tag = "2")]
    pub(super) bucket_counts: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "SomeValue", tags = "1, 3")]
    pub(super) value: Option<SomeValue>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum SomeValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Int(i64),
}
