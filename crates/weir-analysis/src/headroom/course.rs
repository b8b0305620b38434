//! A whole cell over time: all its loads in sequence, on one clock.

use weir_results::{Cell, CellOutcome, LoadSecond, Measurement, Registration, Role, quantile_ns};

/// Length of the averaging windows of CPU use, seconds.
const CPU_WINDOW_S: f64 = 5.0;

/// A cell over time, from the start of its first load. Between loads values are `None`, so lines have gaps there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// Times in seconds from the start of the first load: the middle of each second, and a point between two loads.
    pub t_s: Vec<f64>,
    /// Complete responses per second.
    pub rate_per_s: Vec<Option<f64>>,
    /// p50 of the responses in the second, nanoseconds.
    pub p50_ns: Vec<Option<f64>>,
    /// p99 of the responses in the second, nanoseconds.
    pub p99_ns: Vec<Option<f64>>,
    /// Middle of each window of `cpu_cores`, seconds from the start of the first load.
    pub cpu_t_s: Vec<f64>,
    /// Cores used by the data plane: the mean of each window of five seconds.
    pub cpu_cores: Vec<Option<f64>>,
    /// Times of route changes, seconds from the start of the first load.
    pub changes_t_s: Vec<f64>,
    /// Times at which registrations of all routes started, seconds from the start of the first load.
    pub registrations_t_s: Vec<f64>,
    /// End of the last load, seconds from the start of the first load.
    pub end_s: f64,
}

/// The course of a cell; `None` if the cell has no measurements.
pub fn course(cell: &Cell) -> Option<Course> {
    let CellOutcome::Measured { measurements } = &cell.outcome else { return None };
    let first_ns = start_ns(measurements.first()?);
    let mut course = Course::default();
    let mut samples: Vec<(f64, f64)> = Vec::new();
    for measurement in measurements {
        let from_s = (start_ns(measurement) - first_ns) / 1e9;
        course.add(measurement, from_s);
        course.changes_t_s.extend(measurement.route_changes.iter().map(|change| from_s + change.t_s));
        let registrations = measurement.events.iter().filter(|event| event.kind == Registration::KIND);
        course.registrations_t_s.extend(registrations.map(|event| from_s + event.t_s));
        for sample in &measurement.series {
            let data = cell.parts.iter().filter(|part| part.role == Role::Data);
            let cores: Vec<f64> = data.filter_map(|part| sample.cpu_cores.get(&part.name).copied()).collect();
            if !cores.is_empty() {
                samples.push((from_s + sample.t_s, cores.iter().sum()));
            }
        }
    }
    let window = |at: &f64| (at / CPU_WINDOW_S).floor();
    for same in samples.chunk_by(|(one, _), (next, _)| window(one) == window(next)) {
        course.cpu_t_s.push((window(&same[0].0) + 0.5) * CPU_WINDOW_S);
        course.cpu_cores.push(Some(same.iter().map(|(_, cores)| cores).sum::<f64>() / same.len() as f64));
    }
    Some(course)
}

impl Course {
    fn add(&mut self, measurement: &Measurement, from_s: f64) {
        let seconds = &measurement.record.seconds;
        // The drain after the phase is left out: nothing is sent in it.
        let end = seconds.iter().rposition(|second| second.sustained).map_or(seconds.len(), |last| last + 1);
        // A point without values between two loads makes a gap in lines.
        if let (Some(before_s), Some(first)) = (self.t_s.last(), seconds[..end].first()) {
            self.t_s.push(before_s.midpoint(from_s + middle_s(first)));
            self.rate_per_s.push(None);
            self.p50_ns.push(None);
            self.p99_ns.push(None);
        }
        for second in &seconds[..end] {
            let histogram = second.latency.decode().ok();
            let quantile =
                |share: f64| histogram.as_ref().and_then(|of| quantile_ns(of, 0, share)).map(|ns| ns as f64);
            self.t_s.push(from_s + middle_s(second));
            self.rate_per_s.push((second.length_s > 0.0).then(|| second.completed as f64 / second.length_s));
            self.p50_ns.push(quantile(0.5));
            self.p99_ns.push(quantile(0.99));
        }
        if let Some(last) = seconds[..end].last() {
            self.end_s = from_s + last.t_s + last.length_s;
        }
    }
}

/// The middle of a second, from the start of the warm-up.
fn middle_s(second: &LoadSecond) -> f64 {
    second.t_s + second.length_s / 2.0
}

/// The start of the warm-up by the monotonic clock, nanoseconds.
fn start_ns(measurement: &Measurement) -> f64 {
    let record = &measurement.record;
    let warmup_s = record.seconds.iter().find(|second| second.sustained).map_or(0.0, |second| second.t_s);
    record.phase_start_mono_ns as f64 - warmup_s * 1e9
}
