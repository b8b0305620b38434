//! Pushes the metrics of loads while they run: Prometheus remote write and OTLP over HTTP.
//!
//! A [`Watch`] receives plain counts and histograms. It keeps the totals of each load, and passes copies of them to
//! one thread per [`Output`] through a bounded queue. The caller is never delayed, even if a receiver is slow,
//! rejects samples or is down. If the queue is full, the copy is dropped and counted. The next copy contains the
//! same totals and more.
//!
//! ```no_run
//! use hdrhistogram::Histogram;
//! use weir_watch::{Labels, Output, Second, Target, Version, Watch};
//!
//! let output = Output::prometheus("http://127.0.0.1:9090", Version::V1)?;
//! let watch = Watch::start(&[output])?;
//! let labels = Labels { run: "20261126-0440-ab12".into(), gateway: "nginx".into(), ..Labels::default() };
//! watch.begin(&labels, &Target::default());
//! let latency = Histogram::new(3).expect("three digits");
//! watch.second(&labels, &Second { sent: 0, completed: 0, ..Second::of(&latency) });
//! watch.end(&labels);
//! watch.finish().iter().for_each(|lost| eprintln!("{lost}"));
//! # Ok::<(), weir_watch::WatchError>(())
//! ```
//!
//! This crate must not depend on the lab, the rig or the results.

mod books;
mod buckets;
mod client;
mod error;
mod family;
mod labels;
mod otlp;
mod output;
mod push;
mod remote_write;
mod series;
mod watch;

pub use books::{PartUse, Second, Standing, Totals, Verdict};
pub use error::WatchError;
pub use family::{Family, Kind, families};
pub use labels::{LABEL_CHARS_MAX, LABELS, Label, Labels, Target};
pub use output::{Output, Version};
pub use watch::{SERIES_MAX, Watch};
