//! Builds the row of values of a gateway at a load point from its repeats.

use weir_results::{ArrivalModel, Reason, Usage};

use crate::figures::counts::RequestCounts;
use crate::figures::cpu_range::cpu_range;
use crate::figures::curve::{self, CurvePoint};
use crate::figures::errors::ErrorShare;
use crate::figures::figure::{Figure, Range, Repeated, Sample};
use crate::figures::latencies::LATENCIES;
use crate::figures::part_use::{PartUse, part_use};
use crate::points::baseline::{added_latency, ratio_to_direct};
use crate::points::host_speed::{HostSpeed, rig_cpu_us_per_request};
use crate::points::measured::{Repeat, Repeats};
use crate::points::{Row, tails};
use crate::verdicts::reasons::{Metric, value};

/// Inputs that are the same for all rows of a load point.
pub(crate) struct Context<'a> {
    pub(crate) model: ArrivalModel,
    /// The repeats of the direct baseline.
    pub(crate) direct: &'a Repeats<'a>,
    pub(crate) speed: HostSpeed,
}

/// Builds the row of a gateway from its repeats.
pub(crate) fn row(repeats: &Repeats<'_>, gateway: &str, planned: usize, context: &Context<'_>) -> Row {
    let Context { model, direct, speed } = context;
    let open = *model == ArrivalModel::Open;
    let is_direct = gateway == weir_results::DIRECT;
    let figure = |name: &str, of: &dyn Fn(&Repeat<'_>) -> Sample| Figure::of(repeats.judged(name, of));
    let of_data = |name: &str, of: fn(&Usage) -> Option<f64>| {
        figure(name, &move |repeat| repeat.data().as_ref().and_then(of).into())
    };
    // Makes a metric of the value `of`. Bounds exist only for the value `bounded`, under the key `name`. Multiplied by
    // `of` / `bounded`, they are the bounds of the metric.
    let scaled = |name: &str, of: fn(&Usage) -> Option<f64>, bounded: fn(&Usage) -> Option<f64>| {
        let scaled = |repeat: &Repeat<'_>| {
            let data = repeat.data();
            let value = data.as_ref().and_then(of);
            let mut repeated = repeat.judged(name, value.into());
            let factor = value.zip(data.as_ref().and_then(bounded)).map(|(value, of)| value / of);
            repeated.range = factor.map_or(Range::default(), |factor| repeated.range.map(|end| end * factor));
            repeated
        };
        Figure::of(repeats.iter().map(scaled).collect())
    };
    let cpu_us_per_request =
        |repeat: &Repeat<'_>| speed.widened(value::CPU, repeat, repeat.measurement.cpu_us_per_request.into());
    let latency = |name: &&str| {
        let figure = figure(name, &|repeat| repeat.latency(name));
        ((*name).to_owned(), figure.headline_if(open && !is_direct))
    };
    let mut latency_ns = ordered(LATENCIES.iter().map(latency).collect());
    let short_tails = tails::judge(&mut latency_ns, repeats);
    Row {
        gateway: gateway.to_owned(),
        planned: planned.max(repeats.iter().count()),
        throughput_per_s: Figure::of(repeats.iter().map(|repeat| speed.throughput(repeat)).collect())
            .headline_if(!open && !is_direct),
        latency_ns,
        short_tails,
        latency_curve: latency_curve(repeats),
        error_share: Figure::of_difference(repeats.iter().map(error_share).collect()).not_below(0.0),
        errors: repeats.iter().map(ErrorShare::of).collect(),
        cpu_cores: of_data(value::CORES, |usage| Some(usage.cpu_cores)),
        // An applied CPU limit also holds under host noise, so the upper bound is at most the whole limit.
        cpu_share_of_limit: scaled(
            value::CORES,
            |usage| usage.cpu_share_of_limit,
            |usage| Some(usage.cpu_cores),
        )
        .bounded_by(1.0),
        cpu_share_range: cpu_range(&repeats.iter().copied().collect::<Vec<_>>()),
        requests: RequestCounts::of(repeats.iter().map(|repeat| &repeat.measurement.record.result)),
        cpu_us_per_request: Figure::of(repeats.iter().map(cpu_us_per_request).collect())
            .headline_if(!is_direct && carried_its_load(repeats)),
        rig_cpu_us_per_request: Figure::of(
            repeats.repeated(Metric::Cpu, &|repeat| rig_cpu_us_per_request(repeat).into()),
        ),
        memory_bytes_mean: scaled(value::MEMORY, memory_mean, memory_peak),
        memory_bytes_peak: of_data(value::MEMORY, memory_peak).headline_if(!is_direct),
        added_latency_ns: if is_direct { Vec::new() } else { added_latency(repeats, direct, open) },
        ratio_to_direct: if is_direct || open { None } else { ratio_to_direct(repeats, direct) },
        bound_by: repeats.iter().map(|r| (r.cell.key.repeat, r.measurement.judgement.bound_by)).collect(),
        noisy: Vec::new(),
        objective: Vec::new(),
        parts: parts(repeats),
    }
}

/// Whether the gateway carried the load in every repeat. If it was overloaded, its CPU time per request is valid, but
/// not comparable with gateways that carried the offered rate.
fn carried_its_load(repeats: &Repeats<'_>) -> bool {
    repeats.iter().all(|repeat| !repeat.reasons(Metric::Latency).contains(&Reason::Overloaded))
}

/// Tightens the bounds of quantiles, since values grow with the quantile: a lower bound of p50 is also a lower bound of
/// p99, and an upper bound of p99 is also an upper bound of p50.
fn ordered(mut latencies: Vec<(String, Figure)>) -> Vec<(String, Figure)> {
    let is_quantile = |(name, _): &&mut (String, Figure)| name != "mean";
    let known = |figure: &Figure| match figure.interval {
        Some([low, high]) if !figure.is_bounded() && figure.is_valid() => {
            Range { low: Some(low), high: Some(high) }
        }
        _ => figure.bounds,
    };
    let mut lowest: Option<f64> = None;
    for (_, figure) in latencies.iter_mut().filter(is_quantile) {
        lowest = [lowest, known(figure).low].into_iter().flatten().reduce(f64::max);
        if figure.is_bounded() {
            figure.bounds.low = lowest;
        }
    }
    let mut highest: Option<f64> = None;
    for (_, figure) in latencies.iter_mut().rev().filter(is_quantile) {
        highest = [highest, known(figure).high].into_iter().flatten().reduce(f64::min);
        if figure.is_bounded() {
            figure.bounds.high = highest;
        }
    }
    latencies
}

/// The error share of a repeat. Errors are counts, so a busy host, generator or upstream does not make the share
/// invalid.
fn error_share(repeat: &Repeat<'_>) -> Repeated {
    let share = repeat.measurement.record.result.requests.error_share();
    let mut repeated = Repeated { range: Range::default(), ..repeat.judged(value::THROUGHPUT, share.into()) };
    repeated.reasons.retain(|reason| {
        !matches!(reason, Reason::HostNoise | Reason::GeneratorLimited | Reason::UpstreamLimited)
    });
    repeated
}

fn memory_mean(usage: &Usage) -> Option<f64> {
    usage.memory_bytes_mean.map(|bytes| bytes as f64)
}

fn memory_peak(usage: &Usage) -> Option<f64> {
    usage.memory_bytes_peak.map(|bytes| bytes as f64)
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
