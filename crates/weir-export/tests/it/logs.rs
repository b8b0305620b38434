//! Tests the exported HdrHistogram interval log, which the `hdrhistogram` crate must be able to read.

use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use weir_results::CellOutcome;

use crate::fixture::{self, Scene};

#[test]
fn every_second_of_every_load_is_an_interval() {
    let (run, cells) = fixture::run(Scene::Mixed, &[0.25, 0.5]);
    let log = weir_export::hdr(&run, &cells).unwrap();
    let mut intervals = Vec::new();
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        match entry.unwrap() {
            LogEntry::Interval(interval) => {
                let bytes = decoded(interval.encoded_histogram());
                let histogram: hdrhistogram::Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                let tag = interval.tag().expect("a tag").as_str().to_owned();
                intervals.push((tag, interval.start_timestamp(), histogram));
            }
            LogEntry::StartTime(time) | LogEntry::BaseTime(time) => {
                assert_eq!(time.as_millis(), u128::from(run.started_unix_ms));
            }
        }
    }
    assert!(intervals.is_sorted_by_key(|(_, start, _)| *start), "readers expect them in order");
    let mut expected = 0;
    for cell in &cells {
        let CellOutcome::Measured { measurements } = &cell.outcome else { continue };
        for measurement in measurements {
            let start = format!(
                "cell={};gateway={};repeat={};load={};phase=",
                cell.key.index, cell.key.gateway, cell.key.repeat, measurement.load
            );
            let end = format!(";axis.limits.data.cpus={}", cell.key.axes["limits.data.cpus"]);
            let of_load: Vec<_> =
                intervals.iter().filter(|(tag, ..)| tag.starts_with(&start) && tag.ends_with(&end)).collect();
            let seconds = &measurement.record.seconds;
            assert_eq!(of_load.len(), seconds.len(), "{start}");
            for ((tag, _, histogram), second) in of_load.into_iter().zip(seconds) {
                assert_eq!(*histogram, second.latency.decode().unwrap());
                assert_eq!(tag.contains("phase=sustained"), second.sustained, "{tag}");
                expected += 1;
            }
        }
    }
    assert_eq!(intervals.len(), expected);
}

fn decoded(base64: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(base64).unwrap()
}

#[test]
fn names_never_break_a_tag() {
    let (mut run, mut cells) = fixture::run(Scene::Single, &[0.5]);
    run.plan[0].gateway = "my, own;gateway\n".into();
    cells[0].key = run.plan[0].clone();
    let log = weir_export::hdr(&run, &cells).unwrap();
    assert!(log.contains("Tag=cell=0;gateway=my__own_gateway_;repeat=0;load=full;phase=warmup,"), "{log}");
}

#[test]
fn a_histogram_that_cannot_be_decoded_is_reported() {
    let (run, cells) = fixture::run(Scene::Single, &[0.5]);
    let mut value = serde_json::to_value(&cells).unwrap();
    value[1]["outcome"]["measurements"][0]["record"]["seconds"][2]["latency"] = "AAAA".into();
    let cells: Vec<_> = serde_json::from_value(value).unwrap();
    for error in [weir_export::hdr(&run, &cells), weir_export::json(&run, &cells)] {
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("cell 2, load `full`: the histogram is not in"), "{error}");
    }
}
