//! Reads files of the Gorouter rig (`routing-perf-release`). `throughputramp` writes a line per request: the start in
//! RFC 3339 and the response time in seconds. It repeats the header before each step of its ramp. `cpumonitor` writes
//! the CPU usage of the host in percent: one column for all cores together, or one column per core.

use jiff::Timestamp;
use weir_analysis::compare::{Measure, Series};
use weir_analysis::{Figure, curve};
use weir_results::{TimesNs, new_histogram};

use super::rows::Rows;
use super::{ForeignError, ForeignFile, Read};

pub(super) const PROGRAM: &str = "the Gorouter rig";
pub(super) const TIMES: [&str; 2] = ["start-time", "response-time"];
pub(super) const CPU: [&str; 2] = ["timestamp", "percentage"];

/// Returns one quantile.
type Quantile = fn(&TimesNs) -> Option<u64>;

/// The requests in one file, which is one repeat.
pub(super) struct Requests {
    name: String,
    steps: Vec<Step>,
}

/// The requests of one step of the ramp.
#[derive(Default)]
struct Step {
    starts: Vec<Timestamp>,
    response_ns: Vec<u64>,
}

/// The samples in one CPU file.
pub(super) struct Samples {
    name: String,
    /// Number of percentage columns: one per core, or one for all cores.
    columns: usize,
    /// The time of each sample, and the sum of its percentage columns divided by 100: 1.5 for 100 % and 50 %.
    at: Vec<(Timestamp, f64)>,
}

/// Reads the requests in a file.
pub(super) fn times(file: &ForeignFile, rows: &Rows) -> Result<Requests, ForeignError> {
    let mut steps = vec![Step::default()];
    for line in &rows.lines {
        if line.is_header(&rows.columns) {
            steps.push(Step::default());
            continue;
        }
        let [start, response] = TIMES.map(|column| rows.field(line, column));
        let at: Timestamp = start
            .parse()
            .map_err(|_| line.wrong(file, TIMES[0], start, "time like 2017-08-25T21:07:33.008Z"))?;
        let seconds = line.number(file, TIMES[1], response, "number of seconds like 0.0775")?;
        let step = steps.last_mut().expect("there is one");
        step.starts.push(at);
        step.response_ns.push((seconds * 1e9) as u64);
    }
    steps.retain(|step| !step.starts.is_empty());
    if steps.is_empty() {
        return Err(ForeignError::Nothing {
            name: file.name.clone(),
            detail: "the file has no requests".into(),
            remedy: "use a throughputramp file with at least one request",
        });
    }
    Ok(Requests { name: file.name.clone(), steps })
}

/// Reads the CPU samples in a file.
pub(super) fn cpu(file: &ForeignFile, rows: &Rows) -> Result<Samples, ForeignError> {
    let places = rows.places(CPU[1]);
    let mut at = Vec::new();
    for line in rows.lines.iter().filter(|line| !line.is_header(&rows.columns)) {
        let when = rows.field(line, CPU[0]);
        let moment = moment(when).ok_or_else(|| {
            line.wrong(file, CPU[0], when, "time like 2016-12-15 15:00:47.575579693 -0800 PST")
        })?;
        let mut busy = 0.0;
        for place in &places {
            let value = line.fields.get(*place).unwrap_or_default().trim();
            busy += line.number(file, CPU[1], value, "percentage like 12.358514")? / 100.0;
        }
        at.push((moment, busy));
    }
    Ok(Samples { name: file.name.clone(), columns: places.len(), at })
}

/// Combines all repeats, and assigns CPU samples to their steps by time.
pub(super) fn read(
    requests: &[Requests],
    samples: &[Samples],
    cores: Option<f64>,
) -> Result<Read, ForeignError> {
    let Some(first) = requests.first() else {
        return Err(ForeignError::Nothing {
            name: samples.first().map(|samples| samples.name.clone()).unwrap_or_default(),
            detail: "the file has only CPU samples, and no requests".into(),
            remedy: "put the throughputramp file before this file, separated by a comma: perf.csv,cpu.csv",
        });
    };
    if let Some(other) = requests.iter().find(|other| other.steps.len() != first.steps.len()) {
        return Err(ForeignError::Nothing {
            name: other.name.clone(),
            detail: format!(
                "{}, but {} has {}",
                weir_results::words::counted(other.steps.len() as u64, "step"),
                first.name,
                first.steps.len()
            ),
            remedy: "use repeats with the same steps, or compare the files separately",
        });
    }
    let is_within = |(at, _): &&(Timestamp, f64)| {
        requests.iter().flat_map(|requests| &requests.steps).any(|step| step.holds(*at))
    };
    if let Some(elsewhere) = samples.iter().find(|samples| !samples.at.iter().any(|at| is_within(&at))) {
        return Err(ForeignError::Nothing {
            name: elsewhere.name.clone(),
            detail: format!("the file has no CPU samples from the time of the requests in {}", first.name),
            remedy: "use the CPU file of the same measurement",
        });
    }
    let mut notes = vec![
        "weir reads response times as seconds, and start times as RFC 3339; throughput is the number of requests \
         divided by the time from the first start to the last end"
            .to_owned(),
    ];
    let is_of_host = samples.iter().any(|samples| samples.columns == 1);
    if is_of_host && cores.is_none() {
        notes.push(
            "CPU percentages refer to the whole host; set its core count with --cores N to get CPU time per request"
                .into(),
        );
    } else if !samples.is_empty() {
        notes.push("CPU time covers the whole host, including other processes".into());
    }
    let series = (0..first.steps.len()).map(|at| {
        let steps: Vec<&Step> = requests.iter().map(|requests| &requests.steps[at]).collect();
        let load = if first.steps.len() > 1 { format!("step {}", at + 1) } else { String::new() };
        series(load, &steps, samples, cores)
    });
    Ok(Read { program: PROGRAM, series: series.collect(), notes, warnings: Vec::new() })
}

fn series(load: String, steps: &[&Step], samples: &[Samples], cores: Option<f64>) -> Series {
    let mut merged = new_histogram();
    let mut times = Vec::new();
    for step in steps {
        let mut histogram = new_histogram();
        step.response_ns.iter().for_each(|ns| histogram.saturating_record(*ns));
        times.push(TimesNs::of(&histogram, 0));
        // Both histograms have the same bounds, so the addition cannot fail.
        let _ = merged.add(&histogram);
    }
    let figure = |of: &dyn Fn(usize) -> Option<f64>| Figure::of_valid((0..steps.len()).map(of));
    let mut figures = vec![
        (Measure::Throughput, figure(&|at| steps[at].rate_per_s())),
        (Measure::CpuPerRequest, figure(&|at| steps[at].cpu_us_per_request(samples, cores))),
    ];
    let quantiles: [(&'static str, Quantile); 5] = [
        ("p50", |times| times.p50),
        ("p90", |times| times.p90),
        ("p95", |times| times.p95),
        ("p99", |times| times.p99),
        ("p999", |times| times.p999),
    ];
    figures.push((Measure::Latency("mean"), figure(&|at| times[at].mean)));
    figures.extend(
        quantiles
            .map(|(name, of)| (Measure::Latency(name), figure(&|at| of(&times[at]).map(|ns| ns as f64)))),
    );
    Series { load, figures, curve: curve(&merged, 0), ..Series::default() }
}

impl Step {
    fn first(&self) -> Timestamp {
        self.starts.iter().min().copied().unwrap_or_default()
    }

    /// When the last response of the step ended, nanoseconds since the Unix epoch.
    fn end_ns(&self) -> i128 {
        let ends = self.starts.iter().zip(&self.response_ns);
        ends.map(|(start, ns)| start.as_nanosecond() + i128::from(*ns)).max().unwrap_or_default()
    }

    fn holds(&self, at: Timestamp) -> bool {
        self.first() <= at && at.as_nanosecond() <= self.end_ns()
    }

    fn length_s(&self) -> f64 {
        (self.end_ns() - self.first().as_nanosecond()) as f64 / 1e9
    }

    fn rate_per_s(&self) -> Option<f64> {
        let length_s = self.length_s();
        (length_s > 0.0).then(|| self.starts.len() as f64 / length_s)
    }

    /// CPU time per request: mean number of busy cores in the step, divided by its rate. `None` if the number of cores
    /// is unknown.
    fn cpu_us_per_request(&self, samples: &[Samples], cores: Option<f64>) -> Option<f64> {
        let mut busy = Vec::new();
        for samples in samples {
            let cores_per_column = if samples.columns == 1 { cores? } else { 1.0 };
            let within = samples.at.iter().filter(|(at, _)| self.holds(*at));
            busy.extend(within.map(|(_, busy)| busy * cores_per_column));
        }
        let mean = busy.iter().sum::<f64>() / busy.len() as f64;
        self.rate_per_s().filter(|_| !busy.is_empty()).map(|rate| mean * 1e6 / rate)
    }
}

/// Parses a time in Go's format, in which the name of the zone follows its offset, or in RFC 3339.
fn moment(text: &str) -> Option<Timestamp> {
    if let Ok(moment) = text.parse() {
        return Some(moment);
    }
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    Timestamp::strptime("%Y-%m-%d %H:%M:%S%.f %z", words.join(" ")).ok()
}
