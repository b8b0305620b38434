//! From a text and the command line's overrides to a checked scenario and its points.
//!
//! Every value laid over the written scenario is laid alone and the result read again, so that an error
//! belongs to that value and is told under its name: an argument, an axis, a case. What the written text
//! itself says is told with line and column.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use weir_document::place;
use weir_results::{Configuration, Run};

use crate::check::{Known, Problem, check};
use crate::overlay::{self, Fault};
use crate::quick::quick;
use crate::scenario::{Axis, FITTED_PATH, Gateway, Scenario, fitted_cpus};
use crate::{LabError, Source, not_served};

/// What the command line changes in a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `path=value`, applied in order.
    pub set: Vec<String>,
    /// Only these gateways; names of the scenario's own, or of drivers.
    pub gateways: Vec<String>,
    /// Shorter phases and at most three repeats, but for what `set` names.
    pub quick: bool,
    /// Another number of repeats.
    pub repeats: Option<u32>,
    /// Another seed.
    pub seed: Option<u64>,
    /// The address of a Prometheus, for the one gateway that runs elsewhere.
    pub prometheus: Option<String>,
    /// Matchers of that gateway's series there.
    pub selector: Option<String>,
}

/// A point of the axes: what is laid over the scenario there, and the scenario that results.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Values by path.
    pub axes: BTreeMap<String, Value>,
    /// The scenario at this point.
    pub scenario: Scenario,
}

/// A scenario as it will run.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// With defaults filled in and overrides applied.
    pub scenario: Scenario,
    /// Every point of its axes and cases; one without any.
    pub points: Vec<Point>,
    /// The gateways' own configuration files, by the gateway's name.
    pub configurations: BTreeMap<String, Configuration>,
}

/// Reads and checks a scenario.
///
/// # Errors
/// When the text, an override or an axis says something that cannot be, or that this host cannot do.
pub fn read(source: &Source, overrides: &Overrides, known: &Known) -> Result<Checked, LabError> {
    read_with(source, overrides, known, &BTreeMap::new())
}

/// Reads the scenario of a run as the run keeps it, with the configuration files as they were then; `repeats` is
/// another number of repeats.
///
/// # Errors
/// As [`read`]: the host may have changed.
pub fn read_again(run: &Run, repeats: Option<u32>, known: &Known) -> Result<Checked, LabError> {
    let source = Source { name: format!("run {}", run.id), text: run.scenario.to_string() };
    let overrides = Overrides { repeats, ..Overrides::default() };
    read_with(&source, &overrides, known, &run.manifest.configurations)
}

fn read_with(
    source: &Source,
    overrides: &Overrides,
    known: &Known,
    kept: &BTreeMap<String, Configuration>,
) -> Result<Checked, LabError> {
    let mut reader = Reader { source, overlaid: Vec::new() };
    let scenario = reader.written()?;
    let scenario = reader.overridden(scenario, overrides)?;
    let scenario = reader.fitted(scenario, known)?;
    check(&scenario, known).map_err(|problem| reader.locate(problem))?;
    let points = reader.points(&scenario, known)?;
    let configurations = reader.configurations(&scenario, kept)?;
    Ok(Checked { scenario, points, configurations })
}

struct Reader<'a> {
    source: &'a Source,
    /// Paths that something was laid over, and the name under which to tell errors there; the latest last.
    overlaid: Vec<(Vec<String>, String)>,
}

impl Reader<'_> {
    /// The scenario as written, with its places in errors.
    fn written(&self) -> Result<Scenario, LabError> {
        let Source { name, text } = self.source;
        let raw: Value = weir_document::read(name, text)?;
        if let Some(path) = not_served::find(&raw) {
            let fault = not_served::fault(&path);
            return Err(self.locate(Problem { path, fault, of_host: false }));
        }
        let mut scenario: Scenario = weir_document::read(name, text)?;
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        for (_, file) in scenario.gateways.iter_mut().flat_map(Gateway::files_mut) {
            *file = folder.join(&*file);
        }
        Ok(scenario)
    }

    /// The gateways' own configuration files: as they were kept, else as they are now.
    fn configurations(
        &self,
        scenario: &Scenario,
        kept: &BTreeMap<String, Configuration>,
    ) -> Result<BTreeMap<String, Configuration>, LabError> {
        let mut configurations = BTreeMap::new();
        for (place, gateway) in scenario.gateways.iter().enumerate() {
            let Some(path) = &gateway.config else { continue };
            let configuration = match kept.get(&gateway.name) {
                Some(kept) => kept.clone(),
                None => weir_rig::read_configuration(path).map_err(|error| {
                    let of = |entry: &str| ["gateways", entry, "config"].map(str::to_owned).to_vec();
                    let by_name = of(&gateway.name);
                    let is_overlaid = self.overlaid.iter().any(|(path, _)| *path == by_name);
                    let path = if is_overlaid { by_name } else { of(&place.to_string()) };
                    let fault = Fault::new(error.to_string(), error.remedy());
                    self.locate(Problem { path, fault, of_host: false })
                })?,
            };
            configurations.insert(gateway.name.clone(), configuration);
        }
        Ok(configurations)
    }

    fn overridden(&mut self, scenario: Scenario, o: &Overrides) -> Result<Scenario, LabError> {
        // What is set by name is wanted as it is, however quick the rest should be.
        let mut scenario = if o.quick { quick(scenario) } else { scenario };
        for set in &o.set {
            let label = format!("--set {set}");
            let (path, value) = split_set(set).map_err(|fault| told(&label, fault))?;
            self.overlaid.push((overlay::segments(&path), label.clone()));
            scenario = laid(&scenario, &path, value).map_err(|fault| told(&label, fault))?;
        }
        if !o.gateways.is_empty() {
            let pick = |name: &String| match scenario.gateways.iter().find(|g| g.name == *name) {
                // Asked for by name, it may not be left out in silence.
                Some(gateway) => Gateway { optional: false, ..gateway.clone() },
                None => Gateway::of_driver(name),
            };
            scenario.gateways = o.gateways.iter().map(pick).collect();
            for (place, name) in o.gateways.iter().enumerate() {
                let path = vec!["gateways".to_owned(), place.to_string()];
                self.overlaid.push((path, format!("--gateway {name}")));
            }
        }
        scenario = self.watched(scenario, o)?;
        if let Some(repeats) = o.repeats {
            self.overlaid.push((vec!["repeats".into()], format!("--repeats {repeats}")));
            scenario.repeats = repeats;
        }
        scenario.seed = o.seed.or(scenario.seed);
        for (_, file) in scenario.gateways.iter_mut().flat_map(Gateway::files_mut) {
            // A run may be resumed from another folder. Where there is no folder to be in, nothing can be read anyway.
            if let Ok(absolute) = std::path::absolute(&*file) {
                *file = absolute;
            }
        }
        Ok(scenario)
    }

    /// Lays the command line's Prometheus over the one gateway that runs elsewhere.
    fn watched(&mut self, scenario: Scenario, o: &Overrides) -> Result<Scenario, LabError> {
        let mut scenario = scenario;
        let flags = [("--prometheus", "url", &o.prometheus), ("--selector", "selector", &o.selector)];
        for (flag, field, value) in flags {
            let Some(value) = value else { continue };
            let label = format!("{flag} {value}");
            let places = scenario.gateways.iter().enumerate().filter(|(_, gateway)| gateway.is_remote());
            let places: Vec<usize> = places.map(|(place, _)| place).collect();
            let [place] = places[..] else {
                let fault = match places.is_empty() {
                    true => Fault::new(
                        "no gateway here runs elsewhere",
                        "name one in the scenario, like { name: prod, driver: remote, url: https://gw.example }",
                    ),
                    false => Fault::new(
                        "several gateways here run elsewhere",
                        "give each of them its `prometheus` in the scenario",
                    ),
                };
                return Err(told(&label, fault));
            };
            let path = format!("gateways.{place}.prometheus.{field}");
            self.overlaid.push((overlay::segments(&path), label.clone()));
            let value = Value::String(value.clone());
            scenario = laid(&scenario, &path, value).map_err(|fault| told(&label, fault))?;
        }
        Ok(scenario)
    }

    /// Puts values in the place of those that are to be fitted, so that the run that is kept says which they were.
    fn fitted(&self, mut scenario: Scenario, known: &Known) -> Result<Scenario, LabError> {
        for (path, axis) in &mut scenario.vary.0 {
            let Axis::Fitted(steps) = *axis else { continue };
            if path.as_str() != FITTED_PATH {
                let remedy =
                    format!("give a list of values; limits that fit the host are for `{FITTED_PATH}`");
                let fault = Fault::new(format!("the axis `{path}` cannot be fitted"), remedy);
                let path = vec!["vary".to_owned(), path.clone()];
                return Err(self.locate(Problem { path, fault, of_host: false }));
            }
            *axis = Axis::Values(fitted_cpus(known.cpus, steps));
        }
        Ok(scenario)
    }

    /// The cross product of cases and axes; each value is read and checked alone, then each point as a whole.
    fn points(&mut self, scenario: &Scenario, known: &Known) -> Result<Vec<Point>, LabError> {
        let mut points = vec![Point { axes: BTreeMap::new(), scenario: scenario.clone() }];
        if !scenario.cases.is_empty() {
            let mut cases = Vec::new();
            for (place, case) in scenario.cases.iter().enumerate() {
                let path = ["cases".to_owned(), place.to_string()];
                let leaves = overlay::leaves(case);
                if leaves.is_empty() {
                    let fault = Fault::new("an empty case", "give it a value, or take it out");
                    return Err(self.locate(Problem { path: path.into(), fault, of_host: false }));
                }
                cases.push(self.moved(&points[0], &path, &leaves)?);
            }
            points = cases;
        }
        for (axis, values) in scenario.vary.iter() {
            let path = ["vary".to_owned(), axis.to_owned()];
            let values = values.values();
            if values.is_empty() {
                let fault =
                    Fault::new(format!("the axis `{axis}` has no values"), "give some, or take it out");
                return Err(self.locate(Problem { path: path.into(), fault, of_host: false }));
            }
            let mut varied = Vec::new();
            for point in &points {
                for value in values {
                    varied.push(self.moved(point, &path, &[(axis.to_owned(), value.clone())])?);
                }
            }
            points = varied;
        }
        for point in &points {
            check(&point.scenario, known).map_err(|problem| self.at_point(problem, point))?;
        }
        self.all_different(&points)?;
        // Not before values are laid over it: they name loads as they are written.
        let expanded = |point: Point| Point { scenario: point.scenario.expanded(), ..point };
        Ok(points.into_iter().map(expanded).collect())
    }

    /// The point that `leaves`, written at `path`, make of `from`.
    fn moved(&self, from: &Point, path: &[String], leaves: &[(String, Value)]) -> Result<Point, LabError> {
        let mut point = from.clone();
        for (leaf, value) in leaves {
            let fault = |fault: Fault| {
                let message = format!("`{leaf}: {value}`: {}", fault.message);
                let fault = Fault { message, ..fault };
                self.locate(Problem { path: path.to_vec(), fault, of_host: false })
            };
            let is_objective = overlay::is_objective(leaf);
            match (is_objective, path.first().is_some_and(|from| from == "cases")) {
                (true, true) => {}
                (true, false) => return Err(fault(overlay::objective_axis())),
                (false, _) => overlay::may_vary(leaf).map_err(fault)?,
            }
            point.scenario = laid(&point.scenario, leaf, value.clone()).map_err(fault)?;
            if !is_objective {
                point.axes.insert(leaf.clone(), value.clone());
            }
        }
        Ok(point)
    }

    fn all_different(&self, points: &[Point]) -> Result<(), LabError> {
        let measured: Vec<Scenario> =
            points.iter().map(|point| point.scenario.without_objectives()).collect();
        for (place, point) in points.iter().enumerate() {
            if let Some(first) = measured[..place].iter().position(|other| *other == measured[place]) {
                let message = format!("points {} and {} of the axes are the same", first + 1, place + 1);
                let fault = Fault::new(message, "keep one of the equal values");
                let name = if point.scenario.vary.is_empty() { "cases" } else { "vary" };
                return Err(self.locate(Problem { path: vec![name.into()], fault, of_host: false }));
            }
        }
        Ok(())
    }

    /// A problem of a point: told at the axis or case whose value says it.
    fn at_point(&self, problem: Problem, point: &Point) -> LabError {
        let dotted = problem.path.join(".");
        let related = |path: &&String| dotted.starts_with(*path) || path.starts_with(&dotted);
        let Some((path, value)) = point.axes.keys().find(related).map(|path| (path, &point.axes[path]))
        else {
            return self.locate(problem);
        };
        let message = format!("`{path}: {value}`: {}", problem.fault.message);
        let at = match point.scenario.vary.named(path) {
            Some(_) => vec!["vary".to_owned(), path.clone()],
            None => vec!["cases".to_owned()],
        };
        self.locate(Problem { path: at, fault: Fault { message, ..problem.fault }, ..problem })
    }

    /// Gives a problem its place: what was laid over it last, else line and column.
    fn locate(&self, problem: Problem) -> LabError {
        let Problem { path, fault, of_host } = problem;
        let Fault { message, remedy } = fault;
        let over = |laid: &&(Vec<String>, String)| laid.0.starts_with(&path) || path.starts_with(&laid.0);
        let at = match self.overlaid.iter().rev().find(over) {
            Some((_, label)) => label.clone(),
            None => match place(&self.source.text, &path) {
                Some((line, column)) => format!("{}:{line}:{column}", self.source.name),
                None => self.source.name.clone(),
            },
        };
        match of_host {
            true => LabError::Host { place: at, message, remedy },
            false => LabError::Scenario { place: at, message, remedy },
        }
    }
}

fn told(place: &str, fault: Fault) -> LabError {
    LabError::Scenario { place: place.to_owned(), message: fault.message, remedy: fault.remedy }
}

/// Takes `path=value` apart; the value is read as YAML, so that `0.5`, `20ms` and `[1, 2]` are what they look.
fn split_set(set: &str) -> Result<(String, Value), Fault> {
    let example = "write it as --set limits.data.cpus=0.5";
    let Some((path, value)) = set.split_once('=') else {
        return Err(Fault::new("no value", example));
    };
    if value.trim().is_empty() {
        return Err(Fault::new("no value", example));
    }
    let value = weir_document::read("the value", value).map_err(|e| Fault::new(e.message, e.remedy))?;
    Ok((path.trim().to_owned(), value))
}

/// `scenario` with `value` at `path`, read again.
fn laid(scenario: &Scenario, path: &str, value: Value) -> Result<Scenario, Fault> {
    let mut document = serde_json::to_value(scenario).expect("a scenario is a tree of plain values");
    overlay::lay(&mut document, path, value)?;
    if let Some(path) = not_served::find(&document) {
        return Err(not_served::fault(&path));
    }
    weir_document::read::<Scenario>("the scenario", &document.to_string()).map_err(|error| {
        // A value of the wrong kind is told by the reader; which field it was, only the path says.
        let field = path.rsplit('.').next().unwrap_or(path);
        let named = error.message.contains(field) || error.message.starts_with("unknown field");
        let message = if named { error.message } else { format!("`{field}`: {}", error.message) };
        Fault::new(message, error.remedy)
    })
}
