//! Merges the measurements about the load generators of all shards.

use super::error::MergeError;
use super::result::{Measured, times};
use crate::{GeneratorEvidence, ShardRecord};

/// Merges the evidence of all load generators for a phase that took `wall_s` seconds.
pub(super) fn merged(
    shards: &[ShardRecord],
    measured: &[Measured<'_>],
    wall_s: f64,
) -> Result<GeneratorEvidence, MergeError> {
    let parts = || shards.iter().map(|shard| &shard.record.generator);
    let requests = || measured.iter().map(|shard| &shard.result.requests);
    let unsent = requests().map(|requests| requests.scheduled.saturating_sub(requests.sent)).sum();
    let has_runqueue = parts().all(|part| part.worker_runqueue_s.len() == part.worker_cpu_s.len());
    Ok(GeneratorEvidence {
        workers: parts().map(|part| part.workers).sum(),
        connections: parts().map(|part| part.connections).sum(),
        wall_s,
        worker_cpu_s: parts().flat_map(|part| part.worker_cpu_s.iter().copied()).collect(),
        // Delays and CPU times are matched by position, so a partial list would assign delays to the wrong workers.
        worker_runqueue_s: match has_runqueue {
            true => parts().flat_map(|part| part.worker_runqueue_s.iter().copied()).collect(),
            false => Vec::new(),
        },
        unsent_with_free_connection: parts().map(|part| part.unsent_with_free_connection).sum(),
        // All shards sample the same phase, so the mean of the whole load is the sum of the shards' means.
        in_flight_mean: parts().map(|part| part.in_flight_mean).sum(),
        connections_missing_mean: parts().map(|part| part.connections_missing_mean).sum(),
        connections_opened: parts().map(|part| part.connections_opened).sum(),
        connection_wait_ns: times(measured, "the histogram of waits for a connection", unsent, |shard| {
            shard.distributions?.connection_wait.as_ref()
        })?,
        // With one machine, the warm-up may grow. With several machines, its length is fixed, so that all shards have
        // the same warm-up.
        warm_up: match shards {
            [only] => only.record.generator.warm_up,
            _ => None,
        },
        // All shards read the same recorded session, so the entries of one shard are enough.
        left_out: shards.iter().find_map(|shard| shard.record.generator.left_out.clone()),
    })
}
