//! `weir publish`: a process that a run starts to publish messages to NATS periodically.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use weir_lab::{PublishRecord, PublishSpec, Published};
use weir_nats::{NatsError, Publisher};

use super::generate::{Args, read_spec, until_signalled, write_whole};
use crate::failure::{Exit, Failure};

/// How often the process checks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Publishes until SIGINT or SIGTERM, and records the time of each publication. Failed publications are recorded too,
/// because a fault may have stopped the server. After a failure, the next publication connects again.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let spec: PublishSpec = read_spec(&args.spec)?;
    let stop = until_signalled()?;
    let address: SocketAddr = spec.address.parse().map_err(|error| {
        Failure::environment(format!("`{}`: {error}", spec.address), "give the address as IP:PORT")
    })?;
    let (gap, every) = (Duration::from_nanos(spec.gap_ns), Duration::from_nanos(spec.every_ns));
    // The connection is opened early, so that the first publication is not late. If this fails, the first
    // publication tries again.
    let mut connection = connect(address).ok();
    let mut record = PublishRecord::default();
    let mut due = Instant::now() + every;
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() < due {
            thread::sleep(LOOK_EVERY);
            continue;
        }
        due += every;
        let start_ns = weir_rig::mono_ns();
        let mut sent = 0;
        let messages = spec.messages.iter().take_while(|_| !stop.load(Ordering::Relaxed));
        let messages = messages.map(|(subject, content)| (subject.as_str(), content.as_str()));
        let messages = messages.inspect(|_| sent += 1);
        let published = match connection.take() {
            Some(publisher) => Ok(publisher),
            None => connect(address),
        }
        .and_then(|publisher| publisher.publish(messages, gap).map(|()| publisher));
        let error = published.as_ref().err().map(NatsError::to_string);
        connection = published.ok();
        record.publications.push(Published { start_ns, end_ns: weir_rig::mono_ns(), messages: sent, error });
    }
    write_whole(&args.record, &record)?;
    Ok(Exit::Good)
}

fn connect(address: SocketAddr) -> Result<Publisher, NatsError> {
    Publisher::connect(address, weir_nats::TIMEOUT, || {})
}
