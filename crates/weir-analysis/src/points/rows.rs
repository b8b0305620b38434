//! From the repeats of a gateway at a load point to its row of values.

use weir_results::{ArrivalModel, Reason, Role, Usage};

use crate::figures::counts::RequestCounts;
use crate::figures::cpu_range::cpu_range;
use crate::figures::curve::{self, CurvePoint};
use crate::figures::errors::ErrorShare;
use crate::figures::figure::{Figure, Sample};
use crate::figures::part_use::{PartUse, part_use};
use crate::points::baseline::{added_latency, ratio_to_direct};
use crate::points::measured::{Repeat, Repeats, role_usage};
use crate::points::{LATENCIES, Row};
use crate::verdicts::reasons::Metric;

/// The row of a gateway, with `direct` as its baseline.
pub(crate) fn row(
    repeats: &Repeats<'_>,
    gateway: &str,
    planned: usize,
    model: ArrivalModel,
    direct: &Repeats<'_>,
) -> Row {
    let open = model == ArrivalModel::Open;
    let is_direct = gateway == weir_results::DIRECT;
    let figure =
        |metric: Metric, of: &dyn Fn(&Repeat<'_>) -> Sample| Figure::of(repeats.repeated(metric, of));
    let of_data = |of: fn(&Usage) -> Option<f64>| {
        figure(Metric::Cpu, &move |repeat| repeat.data().as_ref().and_then(of).into())
    };
    let latency = |name: &&str| {
        let figure = figure(Metric::Latency, &|repeat| repeat.latency(name));
        ((*name).to_owned(), figure.headline_if(open && !is_direct))
    };
    Row {
        gateway: gateway.to_owned(),
        planned: planned.max(repeats.iter().count()),
        throughput_per_s: figure(Metric::Throughput, &|repeat| {
            Sample::Value(repeat.measurement.record.result.rate_per_s)
        })
        .headline_if(!open && !is_direct),
        latency_ns: LATENCIES.iter().map(latency).collect(),
        latency_curve: latency_curve(repeats),
        error_share: Figure::of_difference(repeats.repeated(Metric::Throughput, &|repeat| {
            repeat.measurement.record.result.requests.error_share().into()
        })),
        errors: repeats.iter().map(ErrorShare::of).collect(),
        cpu_cores: of_data(|usage| Some(usage.cpu_cores)),
        cpu_share_of_limit: of_data(|usage| usage.cpu_share_of_limit),
        cpu_share_range: cpu_range(&repeats.iter().copied().collect::<Vec<_>>()),
        requests: RequestCounts::of(repeats.iter().map(|repeat| &repeat.measurement.record.result)),
        cpu_us_per_request: figure(Metric::Cpu, &|repeat| repeat.measurement.cpu_us_per_request.into())
            .headline_if(!is_direct && carried_its_load(repeats)),
        rig_cpu_us_per_request: figure(Metric::Cpu, &|repeat| rig_cpu_us_per_request(repeat).into()),
        memory_bytes_mean: of_data(|usage| usage.memory_bytes_mean.map(|bytes| bytes as f64)),
        memory_bytes_peak: of_data(|usage| usage.memory_bytes_peak.map(|bytes| bytes as f64))
            .headline_if(!is_direct),
        added_latency_ns: if is_direct { Vec::new() } else { added_latency(repeats, direct, open) },
        ratio_to_direct: if is_direct || open { None } else { ratio_to_direct(repeats, direct) },
        bound_by: repeats.iter().map(|r| (r.cell.key.repeat, r.measurement.judgement.bound_by)).collect(),
        noisy: Vec::new(),
        objective: Vec::new(),
        parts: parts(repeats),
    }
}

/// Whether every repeat carried the load that the cell is named after. An overloaded gateway did not, so
/// its CPU time per request is valid, and is not compared with that of others at the asked rate.
fn carried_its_load(repeats: &Repeats<'_>) -> bool {
    repeats.iter().all(|repeat| !repeat.reasons(Metric::Latency).contains(&Reason::Overloaded))
}

fn latency_curve(all: &Repeats<'_>) -> Vec<CurvePoint> {
    let (repeats, _) = all.counted(Metric::Latency);
    curve::latency_curve(repeats.iter().map(|repeat| &repeat.measurement.record))
}

fn parts(all: &Repeats<'_>) -> Vec<PartUse> {
    let Some(first) = all.iter().next() else { return Vec::new() };
    let (repeats, counts) = all.counted(Metric::Cpu);
    first.cell.parts.iter().map(|part| part_use(part, &repeats, counts)).collect()
}

/// CPU time of upstream and load generator per completed request; `None` where one of them was not sampled.
fn rig_cpu_us_per_request(repeat: &Repeat<'_>) -> Option<f64> {
    let used = |role| role_usage(&repeat.cell.parts, &repeat.measurement.usage, role);
    let cores = used(Role::Origin)?.cpu_cores + used(Role::Generator)?.cpu_cores;
    let per_s = repeat.measurement.record.result.rate_per_s;
    (per_s > 0.0).then(|| cores * 1e6 / per_s)
}
