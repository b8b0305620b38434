//! Reads results of other programs for comparisons: the CSVs of the Gorouter rig, Locust's statistics, k6's summaries.
//!
//! Each file is one repeat. Such files contain little about the conditions of the measurement and nothing about its
//! validity. So weir uses all repeats, except those in which too many requests failed. The comparison reports that the
//! provenance of these results is unknown.

mod error;
mod gorouter;
mod k6;
mod locust;
mod rows;

use weir_analysis::compare::{Dataset, Measure, Series, Source};
use weir_analysis::quantity::{counted, percent_short};
use weir_analysis::{CurvePoint, Figure};
use weir_results::{Reason, Thresholds};

pub use error::ForeignError;
use rows::Rows;

/// A result file of another load generator.
#[derive(Clone, Debug)]
pub struct ForeignFile {
    /// The file name as the user gave it, for errors.
    pub name: String,
    /// The content.
    pub text: String,
}

/// What a reader returns: the program and its results, with notes and warnings about them.
struct Read {
    program: &'static str,
    series: Vec<Series>,
    notes: Vec<String>,
    warnings: Vec<String>,
}

/// Reads `files`, which must be from one program; each file is a repeat. `cores` is the number of cores of the measured
/// host. It is needed if the file contains CPU use as a share of all cores.
///
/// # Errors
/// When a file is given twice, is empty, has an unknown format, lacks columns or values, has an invalid value, or comes
/// from a different program than the first file.
pub fn read_foreign(files: &[ForeignFile], cores: Option<f64>) -> Result<Dataset, ForeignError> {
    let mut parsed: Vec<(&ForeignFile, Form)> = Vec::new();
    for (place, file) in files.iter().enumerate() {
        if let Some(other) = files[..place].iter().find(|other| other.text.trim() == file.text.trim()) {
            return Err(ForeignError::twice(other, file));
        }
        parsed.push((file, Form::of(file)?));
    }
    if let Some((one, form)) = parsed.first()
        && let Some((other, other_form)) = parsed.iter().find(|(_, other)| other.program() != form.program())
    {
        return Err(ForeignError::Mixed {
            name: other.name.clone(),
            program: other_form.program(),
            other: one.name.clone(),
            of_other: form.program(),
        });
    }
    let (mut times, mut cpu, mut statistics, mut summaries) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (file, form) in parsed {
        match form {
            Form::Times(rows) => times.push(gorouter::times(file, &rows)?),
            Form::Cpu(rows) => cpu.push(gorouter::cpu(file, &rows)?),
            Form::Statistics(rows) => statistics.push(locust::statistics(file, &rows)?),
            Form::Summary(summary) => summaries.push(k6::summary(file, &summary)?),
        }
    }
    let read = if !statistics.is_empty() {
        locust::read(&statistics)
    } else if !summaries.is_empty() {
        k6::read(&summaries)
    } else {
        gorouter::read(&times, &cpu, cores)?
    };
    let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
    Ok(Dataset {
        label: names.first().cloned().unwrap_or_default(),
        source: Source::Foreign {
            program: read.program,
            files: names,
            notes: read.notes,
            warnings: read.warnings,
        },
        series: read.series,
    })
}

/// The times that a program's summary contains. For each time: its name in the program, its name in weir, and its
/// quantile (`None` for the mean).
type Times = [(&'static str, &'static str, Option<f64>)];

/// A repeat for which the file contains only summarized latencies, such as mean and quantiles.
struct SummedUp<'a> {
    rate_per_s: f64,
    /// Summarized latencies, nanoseconds, in the order of the program's [`Times`].
    times_ns: &'a [Option<f64>],
    /// Share of failed requests; `None` if the file does not contain it.
    failed: Option<f64>,
}

impl SummedUp<'_> {
    /// Reasons to exclude the repeat (`docs/method.md#verdicts`).
    fn reasons(&self) -> Vec<Reason> {
        let has_errors = self.failed.is_some_and(|share| share > Thresholds::default().error_share);
        has_errors.then_some(Reason::Errors).into_iter().collect()
    }
}

/// A warning about repeats that are excluded because too many requests failed; `None` if there are none.
fn failed_repeats(repeats: &[SummedUp<'_>]) -> Option<String> {
    let excluded = repeats.iter().filter(|repeat| !repeat.reasons().is_empty()).count();
    let share = percent_short(Thresholds::default().error_share);
    let all = counted(repeats.len() as u64, "repeat");
    (excluded > 0).then(|| format!("{excluded} of {all} excluded: more than {share} of the requests failed"))
}

/// Makes a series from the throughput and the latencies of `repeats`. `times` contains the name and quantile of each
/// latency.
fn summed_up(times: &Times, repeats: &[SummedUp<'_>]) -> Series {
    let figure = |of: &dyn Fn(&SummedUp<'_>) -> Option<f64>| {
        Figure::of_judged(repeats.iter().map(|repeat| (of(repeat), repeat.reasons())))
    };
    let throughput = figure(&|repeat| Some(repeat.rate_per_s));
    let mut series = Series { figures: vec![(Measure::Throughput, throughput)], ..Series::default() };
    for (place, (_, name, quantile)) in times.iter().enumerate() {
        let figure = figure(&|repeat| repeat.times_ns.get(place).copied().flatten());
        if let Some((quantile, mean)) = quantile.zip(figure.mean) {
            series.curve.push(CurvePoint { quantile, latency_ns: mean as u64 });
        }
        series.figures.push((Measure::Latency(name), figure));
    }
    series
}

/// A table format: (the program that writes it, the columns that identify it, the variant of [`Form`]).
type Known = (&'static str, &'static [&'static str], fn(Rows) -> Form);

/// The content of a file. The start of the text determines its format.
enum Form {
    Times(Rows),
    Cpu(Rows),
    Statistics(Rows),
    Summary(serde_json::Value),
}

impl Form {
    fn of(file: &ForeignFile) -> Result<Self, ForeignError> {
        let text = file.text.trim_start_matches('\u{feff}').trim_start();
        if text.is_empty() {
            return Err(ForeignError::Empty { name: file.name.clone() });
        }
        if text.starts_with('{') {
            return k6::parsed(file, text).map(Self::Summary);
        }
        let rows = Rows::of(file, text)?;
        let forms: [Known; 3] = [
            (gorouter::PROGRAM, &gorouter::TIMES, Self::Times),
            (gorouter::PROGRAM, &gorouter::CPU, Self::Cpu),
            (locust::PROGRAM, &locust::COLUMNS, Self::Statistics),
        ];
        // Choose the format whose columns are most complete in the file. If some are missing, they are reported.
        let has = |columns: &[&str]| columns.iter().filter(|column| rows.has(column)).count();
        let (program, columns, form) = forms
            .into_iter()
            .max_by_key(|(_, columns, _)| has(columns) * 100 / columns.len())
            .expect("there are three");
        let missing: Vec<&str> = columns.iter().copied().filter(|column| !rows.has(column)).collect();
        match missing.len() {
            0 => Ok(form(rows)),
            all if all == columns.len() => Err(ForeignError::unknown(file, &rows.columns.join(","))),
            _ => {
                let missing =
                    missing.iter().map(|column| format!("`{column}`")).collect::<Vec<_>>().join(", ");
                Err(ForeignError::Columns { name: file.name.clone(), program, missing })
            }
        }
    }

    fn program(&self) -> &'static str {
        match self {
            Self::Times(_) | Self::Cpu(_) => gorouter::PROGRAM,
            Self::Statistics(_) => locust::PROGRAM,
            Self::Summary(_) => k6::PROGRAM,
        }
    }
}
