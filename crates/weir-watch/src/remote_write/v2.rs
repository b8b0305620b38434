//! Version 2.0 of remote write (`io.prometheus.write.v2.Request`). Names, label values and help texts are indices
//! into one table of texts.

use std::collections::BTreeMap;

use prost::Message;

use super::{Histogram, Points, Sample, type_number};
use crate::series::{Batch, Growth};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Request {
    /// The symbol table. Its first string must be empty.
    #[prost(string, repeated, tag = "4")]
    pub(super) symbols: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimeSeries {
    /// Indices of label names and values, alternating and sorted by name.
    #[prost(uint32, repeated, tag = "1")]
    pub(super) labels_refs: Vec<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub(super) histograms: Vec<Histogram>,
    #[prost(message, optional, tag = "5")]
    pub(super) metadata: Option<Metadata>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(uint32, tag = "3")]
    pub(super) help_ref: u32,
}

/// Builds the symbol table, and finds the index of each string.
struct Symbols<'a> {
    places: BTreeMap<&'a str, u32>,
    table: Vec<String>,
}

impl<'a> Symbols<'a> {
    fn new() -> Self {
        Self { places: BTreeMap::from([("", 0)]), table: vec![String::new()] }
    }

    fn place(&mut self, symbol: &'a str) -> u32 {
        let table = &mut self.table;
        *self.places.entry(symbol).or_insert_with(|| {
            table.push(symbol.to_owned());
            table.len() as u32 - 1
        })
    }
}

pub(super) fn request(batch: &Batch) -> Request {
    let mut symbols = Symbols::new();
    let timeseries = batch.iter().map(|growth| time_series(growth, &mut symbols)).collect();
    Request { symbols: symbols.table, timeseries }
}

fn time_series<'a>(growth: &'a Growth, symbols: &mut Symbols<'a>) -> TimeSeries {
    let Points { samples, histograms } = Points::of(growth);
    let family = growth.series.family;
    let mut labels_refs = vec![symbols.place("__name__"), symbols.place(family.name)];
    for (name, value) in &growth.series.labels {
        labels_refs.extend([symbols.place(name), symbols.place(value)]);
    }
    let metadata = Metadata { kind: type_number(family.kind), help_ref: symbols.place(family.help) };
    TimeSeries { labels_refs, samples, histograms, metadata: Some(metadata) }
}
