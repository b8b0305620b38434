//! What a row of the table is about: a load, one of its steps, one of its routes, or a failed cell.

use weir_results::{
    Cell, CellOutcome, Histogram, HistogramError, LoadResult, Measurement, Requests, RouteResult, Run,
    StepRecord, TimesNs, new_histogram,
};

use crate::ExportError;

/// What a row of the table is about.
pub(crate) struct Entry<'a> {
    pub(crate) run: &'a Run,
    pub(crate) cell: &'a Cell,
    /// The measurement, and the part of it that the row shows; `None` for a failed cell.
    pub(crate) measured: Option<(&'a Measurement, Set<'a>)>,
    /// For a route, its latency over all status classes.
    route_latency: Option<TimesNs>,
}

/// The part of a measurement that a row shows.
#[derive(Clone, Copy)]
pub(crate) enum Set<'a> {
    /// The whole load.
    Load,
    /// A step, with its number from 0.
    Step(usize, &'a StepRecord),
    /// A route.
    Route(&'a RouteResult),
}

/// All entries of a run, in the order of its plan.
pub(crate) fn entries<'a>(run: &'a Run, cells: &'a [Cell]) -> Result<Vec<Entry<'a>>, ExportError> {
    let mut entries = Vec::new();
    for cell in in_order(cells) {
        let entry = |measured| Entry { run, cell, measured, route_latency: None };
        let CellOutcome::Measured { measurements } = &cell.outcome else {
            entries.push(entry(None));
            continue;
        };
        for measurement in measurements {
            let record = &measurement.record;
            entries.push(entry(Some((measurement, Set::Load))));
            let steps = record.steps.iter().enumerate();
            entries.extend(steps.map(|(index, step)| entry(Some((measurement, Set::Step(index, step))))));
            for route in &record.routes {
                let times = route_times(route).map_err(ExportError::histogram(cell, &measurement.load))?;
                let of_route = entry(Some((measurement, Set::Route(route))));
                entries.push(Entry { route_latency: Some(times), ..of_route });
            }
        }
    }
    Ok(entries)
}

/// The cells in the order of the plan.
pub(crate) fn in_order(cells: &[Cell]) -> Vec<&Cell> {
    let mut ordered: Vec<&Cell> = cells.iter().collect();
    ordered.sort_by_key(|cell| cell.key.index);
    ordered
}

/// The loads of all measured cells, in the order of the plan.
pub(crate) fn loads(cells: &[Cell]) -> impl Iterator<Item = (&Cell, &Measurement)> {
    in_order(cells).into_iter().flat_map(|cell| {
        let measurements = match &cell.outcome {
            CellOutcome::Measured { measurements } => measurements.as_slice(),
            CellOutcome::Failed { .. } => &[],
        };
        measurements.iter().map(move |measurement| (cell, measurement))
    })
}

/// The latency of a route, from the responses of all status classes. Requests without a response rank last.
pub(crate) fn route_times(route: &RouteResult) -> Result<TimesNs, HistogramError> {
    let mut sum = new_histogram();
    sum.auto(true);
    for times in route.by_class.values() {
        let histogram = times.latency.decode()?;
        sum.add(&histogram).map_err(|error| HistogramError::Encoding(error.to_string()))?;
    }
    Ok(TimesNs::of(&sum, route.requests.unanswered()))
}

/// Adds counts. The sum saturates, because an imported run can contain any counts.
pub(crate) fn sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// The number of values in a histogram, and their quantiles.
pub(crate) fn described(histogram: &Histogram) -> Result<(u64, TimesNs), HistogramError> {
    let decoded = histogram.decode()?;
    Ok((decoded.len(), TimesNs::of(&decoded, 0)))
}

impl<'a> Entry<'a> {
    pub(crate) fn measurement(&self) -> Option<&'a Measurement> {
        self.measured.map(|(measurement, _)| measurement)
    }

    pub(crate) fn set(&self) -> Option<Set<'a>> {
        self.measured.map(|(_, set)| set)
    }

    /// The measurement, if the row shows a whole load; rows of steps and routes do not show all values.
    pub(crate) fn whole(&self) -> Option<&'a Measurement> {
        match self.measured? {
            (measurement, Set::Load) => Some(measurement),
            _ => None,
        }
    }

    /// The result of the load or step; `None` for a route.
    pub(crate) fn result(&self) -> Option<&'a LoadResult> {
        match self.measured? {
            (measurement, Set::Load) => Some(&measurement.record.result),
            (_, Set::Step(_, step)) => Some(&step.result),
            (_, Set::Route(_)) => None,
        }
    }

    pub(crate) fn requests(&self) -> Option<&'a Requests> {
        match self.measured? {
            (_, Set::Route(route)) => Some(&route.requests),
            _ => self.result().map(|result| &result.requests),
        }
    }

    pub(crate) fn latency(&self) -> Option<TimesNs> {
        self.route_latency.or_else(|| self.result().map(|result| result.latency_ns))
    }
}
