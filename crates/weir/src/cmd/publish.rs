//! `weir publish`: publishes messages again and again, as a process of its own, for the lab.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use weir_lab::{PublishRecord, PublishSpec};

use super::generate::{Args, read_spec, until_signalled, write_whole};
use crate::failure::{Exit, Failure};

/// How often it looks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Publishes until SIGINT or SIGTERM, and writes when.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let spec: PublishSpec = read_spec(&args.spec)?;
    let stop = until_signalled()?;
    let failed =
        |error: &dyn std::fmt::Display| Failure::environment(error.to_string(), "see the log of the service");
    let address = spec.address.parse().map_err(|error| failed(&error))?;
    let publisher =
        weir_nats::Publisher::connect(address, weir_nats::TIMEOUT, || {}).map_err(|error| failed(&error))?;
    let (gap, every) = (Duration::from_nanos(spec.gap_ns), Duration::from_nanos(spec.every_ns));
    let messages = || spec.messages.iter().map(|(subject, content)| (subject.as_str(), content.as_str()));
    let mut record = PublishRecord::default();
    let mut due = Instant::now() + every;
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() < due {
            thread::sleep(LOOK_EVERY);
            continue;
        }
        due += every;
        let start_ns = weir_rig::mono_ns();
        publisher.publish(messages(), gap).map_err(|error| failed(&error))?;
        record.publications.push((start_ns, weir_rig::mono_ns()));
    }
    write_whole(&args.record, &record)?;
    Ok(Exit::Good)
}
