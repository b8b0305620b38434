//! `prometheus.WriteRequest` of remote write 1.0 (`prompb/remote.proto` and `prompb/types.proto` of Prometheus).

use prost::Message;

use super::{Histogram, Points, Sample, type_number};
use crate::series::{Batch, Growth};

#[derive(Clone, PartialEq, Message)]
pub(super) struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) timeseries: Vec<TimeSeries>,
    #[prost(message, repeated, tag = "3")]
    pub(super) metadata: Vec<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimeSeries {
    /// Labels sorted by name.
    #[prost(message, repeated, tag = "1")]
    pub(super) labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    pub(super) histograms: Vec<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Label {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(string, tag = "2")]
    pub(super) family: String,
    #[prost(string, tag = "4")]
    pub(super) help: String,
}

pub(super) fn request(batch: &Batch) -> WriteRequest {
    let mut metadata: Vec<Metadata> = Vec::new();
    for Growth { series, .. } in batch {
        let family = series.family;
        if !metadata.iter().any(|known| known.family == family.name) {
            let (kind, help) = (type_number(family.kind), family.help.to_owned());
            metadata.push(Metadata { kind, family: family.name.to_owned(), help });
        }
    }
    WriteRequest { timeseries: batch.iter().map(time_series).collect(), metadata }
}

fn time_series(growth: &Growth) -> TimeSeries {
    let Points { samples, histograms } = Points::of(growth);
    // `_` sorts before all lower-case letters, so the name of the metric comes first.
    let name = ("__name__", growth.series.family.name);
    let labels = growth.series.labels.iter().map(|(name, value)| (*name, value.as_str()));
    let label = |(name, value): (&str, &str)| Label { name: name.to_owned(), value: value.to_owned() };
    TimeSeries { labels: [name].into_iter().chain(labels).map(label).collect(), samples, histograms }
}
