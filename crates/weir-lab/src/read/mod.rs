//! Reads a scenario, applies the overrides of the command line, checks the result, and computes the points of its axes.
//!
//! weir sets each value of an argument, an axis or a case separately and reads the changed scenario again. So an error
//! can name the invalid value. Errors in the text have line and column. All errors are reported together.

mod objectives;
mod overlay;
mod quick;
mod written;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use weir_document::{Problem, place};
use weir_results::{Configuration, Run};

use self::quick::quick;
use crate::check::problem::ScenarioProblem;
use crate::check::{Known, check, reserved};
use crate::scenario::{Axis, FITTED_PATH, Gateway, Scenario, fitted_cpus, without_url_credentials};
use crate::{LabError, Source};

/// Command-line options that change a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Values of `--set`, like `limits.data.cpus=0.5`, applied in this order.
    pub set: Vec<String>,
    /// Measures only these gateways: names of gateways in the scenario, or of drivers. Empty means all gateways of the
    /// scenario.
    pub gateways: Vec<String>,
    /// Shortens the phases and runs at most three repeats; `set` takes precedence.
    pub quick: bool,
    /// Replaces the number of repeats.
    pub repeats: Option<u32>,
    /// A positive control: `10%`, or `nginx=10%`.
    pub control: Option<String>,
    /// Replaces the seed.
    pub seed: Option<u64>,
    /// The URL of a Prometheus server, for the remote gateway. The scenario must have exactly one remote gateway.
    pub prometheus: Option<String>,
    /// Label matchers that select the series of the remote gateway in Prometheus.
    pub selector: Option<String>,
}

/// One combination of the values of axes and cases.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The values of this combination, by the path of their field.
    pub axes: BTreeMap<String, Value>,
    /// The scenario with these values set.
    pub scenario: Scenario,
}

/// A scenario that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The scenario, with defaults filled in and overrides applied.
    pub scenario: Scenario,
    /// Every combination of axes and cases. If there are no axes and cases, one point with the scenario itself.
    pub points: Vec<Point>,
    /// Configuration files of the user, by the gateway's name.
    pub configurations: BTreeMap<String, Configuration>,
}

/// Reads and checks a scenario.
///
/// # Errors
/// If the text, an override or an axis is invalid, or if this host cannot run the scenario.
pub fn read(source: &Source, overrides: &Overrides, known: &Known) -> Result<Checked, LabError> {
    read_with(source, overrides, known, &BTreeMap::new())
}

/// Reads the scenario of a stored run with its stored configuration files; `repeats` replaces the number of repeats.
///
/// # Errors
/// Same errors as [`read`], for example if the host has changed since the run was stored.
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
    let mut reader = Reader { source, overlaid: Vec::new(), errors: Vec::new() };
    let scenario = reader.written()?;
    let scenario = reader.overridden(scenario, overrides, known)?;
    let scenario = reader.fitted(scenario, known)?;
    for problem in check(&scenario, known) {
        reader.add(problem);
    }
    let points = reader.points(&scenario, known);
    let configurations = reader.configurations(&scenario, kept);
    reader.end()?;
    Ok(Checked { scenario, points, configurations })
}

struct Reader<'a> {
    source: &'a Source,
    /// Overridden paths, each with the argument that overrides it, in the order in which they were applied.
    overlaid: Vec<(Vec<String>, String)>,
    /// Errors so far.
    errors: Vec<LabError>,
}

impl Reader<'_> {
    fn add(&mut self, problem: impl Into<ScenarioProblem>) {
        self.errors.push(self.locate(problem));
    }

    /// Fails with all errors, if there are any.
    fn end(&mut self) -> Result<(), LabError> {
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(LabError::of_all(std::mem::take(&mut self.errors))),
        }
    }

    /// Reads the scenario without overrides. File paths become relative to the folder of the scenario.
    fn written(&self) -> Result<Scenario, LabError> {
        let mut scenario = written::read(self.source)?;
        let folder = Path::new(&self.source.name).parent().unwrap_or(Path::new(""));
        for (_, file) in scenario.gateways.iter_mut().flat_map(Gateway::files_mut) {
            *file = folder.join(&*file);
        }
        Ok(scenario)
    }

    /// Collects the configuration files of the user. `kept` contains the files of a stored run; files that are not in
    /// `kept` are read from disk.
    fn configurations(
        &mut self,
        scenario: &Scenario,
        kept: &BTreeMap<String, Configuration>,
    ) -> BTreeMap<String, Configuration> {
        let mut configurations = BTreeMap::new();
        for (place, gateway) in scenario.gateways.iter().enumerate() {
            let Some(path) = &gateway.config else { continue };
            let read =
                kept.get(&gateway.name).cloned().map_or_else(|| weir_rig::read_configuration(path), Ok);
            match read {
                Ok(configuration) => {
                    configurations.insert(gateway.name.clone(), configuration);
                }
                Err(error) => {
                    let of = |entry: &str| ["gateways", entry, "config"].map(str::to_owned).to_vec();
                    let by_name = of(&gateway.name);
                    let is_overlaid = self.overlaid.iter().any(|(path, _)| *path == by_name);
                    let path = if is_overlaid { by_name } else { of(&place.to_string()) };
                    let error = Problem::new(error.to_string(), error.remedy());
                    self.add(error.at(path));
                }
            }
        }
        configurations
    }

    fn overridden(&mut self, scenario: Scenario, o: &Overrides, known: &Known) -> Result<Scenario, LabError> {
        // `--quick` is applied first, so that `--set` can override it.
        let mut scenario = if o.quick { quick(scenario) } else { scenario };
        for set in &o.set {
            let label = format!("--set {}", without_url_credentials(set));
            let read = split_set(set).and_then(|(path, value)| {
                self.overlaid.push((overlay::segments(&path), label.clone()));
                laid(&scenario, &path, value)
            });
            match read {
                Ok(with_value) => scenario = with_value,
                Err(error) => self.errors.push(of_argument(&label, error)),
            }
        }
        // Stop if a value was rejected. The checks below would run without this value, and could report errors that do
        // not occur with it.
        self.end()?;
        if !o.gateways.is_empty() {
            let pick = |name: &String| match scenario.gateways.iter().find(|g| g.name == *name) {
                // A gateway that `--gateway` names is required.
                Some(gateway) => Gateway { optional: false, ..gateway.clone() },
                None => Gateway::of_driver(name),
            };
            let picked: Vec<Gateway> = o.gateways.iter().map(pick).collect();
            let written = std::mem::replace(&mut scenario.gateways, picked.clone());
            // `--gateway` may remove all gateways that need a service. Such a service is not started, so its faults are
            // removed.
            scenario.keep_faults_of(|service| {
                known.is_needed(service, &picked) || !known.is_needed(service, &written)
            });
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
        if let Some(control) = &o.control {
            let label = format!("--control {control}");
            let value = match control.split_once('=') {
                Some((gateway, share)) => serde_json::json!({ "gateway": gateway, "share": share }),
                None => serde_json::json!({ "share": control }),
            };
            for field in ["share", "gateway"] {
                self.overlaid.push((vec!["control".into(), field.into()], label.clone()));
            }
            match laid(&scenario, "control", value) {
                Ok(with_value) => scenario = with_value,
                Err(error) => self.errors.push(of_argument(&label, error)),
            }
        }
        scenario.seed = o.seed.or(scenario.seed);
        for (_, file) in scenario.gateways.iter_mut().flat_map(Gateway::files_mut) {
            // A run can be resumed from another folder, so paths must be absolute.
            if let Ok(absolute) = std::path::absolute(&*file) {
                *file = absolute;
            }
        }
        Ok(scenario)
    }

    /// Applies `--prometheus` and `--selector` to the only remote gateway.
    fn watched(&mut self, scenario: Scenario, o: &Overrides) -> Result<Scenario, LabError> {
        let mut scenario = scenario;
        let flags = [("--prometheus", "url", &o.prometheus), ("--selector", "selector", &o.selector)];
        for (flag, field, value) in flags {
            let Some(value) = value else { continue };
            let label = format!("{flag} {}", without_url_credentials(value));
            let places = scenario.gateways.iter().enumerate().filter(|(_, gateway)| gateway.is_remote());
            let places: Vec<usize> = places.map(|(place, _)| place).collect();
            let [place] = places[..] else {
                let error = match places.is_empty() {
                    true => Problem::new(
                        "the scenario has no remote gateway",
                        "add a gateway like { name: prod, driver: remote, url: https://gw.example }",
                    ),
                    false => Problem::new(
                        "the scenario has several remote gateways",
                        "add `prometheus` to each remote gateway in the scenario",
                    ),
                };
                return Err(of_argument(&label, error));
            };
            let path = format!("gateways.{place}.prometheus.{field}");
            self.overlaid.push((overlay::segments(&path), label.clone()));
            let value = Value::String(value.clone());
            scenario = laid(&scenario, &path, value).map_err(|error| of_argument(&label, error))?;
        }
        Ok(scenario)
    }

    /// Replaces the words `fitted` and `doubled` in axes with values that fit this host, so that a stored run contains
    /// the values.
    fn fitted(&self, mut scenario: Scenario, known: &Known) -> Result<Scenario, LabError> {
        for (path, axis) in &mut scenario.vary.0 {
            let Axis::Fitted(steps) = *axis else { continue };
            if path.as_str() != FITTED_PATH {
                let remedy = format!("use a list of values; only `{FITTED_PATH}` can be `fitted`");
                let error = Problem::new("`fitted` is not supported here", remedy);
                let path = vec!["vary".to_owned(), path.clone()];
                return Err(self.locate(error.at(path)));
            }
            *axis = Axis::Values(fitted_cpus(known.cpus, steps));
        }
        Ok(scenario)
    }

    /// Computes the points: the cross product of cases and axes. Reads each value separately, and then checks each
    /// point as a whole.
    fn points(&mut self, scenario: &Scenario, known: &Known) -> Vec<Point> {
        let mut points = vec![Point { axes: BTreeMap::new(), scenario: scenario.clone() }];
        if !scenario.cases.is_empty() {
            let mut cases = Vec::new();
            for (place, case) in scenario.cases.iter().enumerate() {
                let path = ["cases".to_owned(), place.to_string()];
                let leaves = overlay::leaves(case);
                if leaves.is_empty() {
                    let error = Problem::new("the case is empty", "add a value, or remove the case");
                    self.add(error.at(path.to_vec()));
                    continue;
                }
                cases.extend(self.moved(&points[0], &path, &leaves));
            }
            points = cases;
        }
        for (axis, values) in scenario.vary.iter() {
            let path = ["vary".to_owned(), axis.to_owned()];
            let values = values.values();
            if values.is_empty() {
                let error = Problem::new("the axis has no values", "add values, or remove the axis");
                self.add(error.at(path.to_vec()));
                continue;
            }
            let mut varied = Vec::new();
            for point in &points {
                for value in values {
                    varied.extend(self.moved(point, &path, &[(axis.to_owned(), value.clone())]));
                }
            }
            // An axis without valid values is skipped, so that the other axes are checked.
            if !varied.is_empty() {
                points = varied;
            }
        }
        // The points are checked only if there are no errors so far: every point would repeat them.
        if self.errors.is_empty() {
            for point in &points {
                for problem in check(&point.scenario, known) {
                    let error = self.at_point(problem, point);
                    self.errors.push(error);
                }
            }
            self.check_different(&points);
        }
        // Loads with several rates are expanded last, because paths of axes and cases use the original load names.
        let expanded = |point: Point| Point { scenario: point.scenario.expanded(), ..point };
        points.into_iter().map(expanded).collect()
    }

    /// Returns `from` with each value of `leaves` at its path; `None` if a value is invalid. `path` locates the axis or
    /// case in the text, for errors.
    fn moved(&mut self, from: &Point, path: &[String], leaves: &[(String, Value)]) -> Option<Point> {
        let mut point = from.clone();
        let before = self.errors.len();
        for (leaf, value) in leaves {
            match moved_by(&point.scenario, path, leaf, value) {
                Ok(scenario) => point.scenario = scenario,
                Err(error) => {
                    if self.is_reported(leaf, &error) {
                        return None;
                    }
                    let error = Problem { message: with_value(leaf, value, &error.message), ..error };
                    self.errors.push(self.located(error.at(path.to_vec()), false));
                    continue;
                }
            }
            if !overlay::is_objective(leaf) {
                point.axes.insert(leaf.clone(), value.clone());
            }
        }
        (self.errors.len() == before).then_some(point)
    }

    /// Whether the same error was reported for another value at this path. The path is then the cause, not the value,
    /// so one report is enough.
    fn is_reported(&self, path: &str, error: &Problem<()>) -> bool {
        let (begin, end) = (format!(": `{path}: "), format!(": {}", error.message));
        let texts = self.errors.iter().map(LabError::to_string);
        texts.into_iter().any(|text| text.contains(&begin) && text.ends_with(&end))
    }

    fn check_different(&mut self, points: &[Point]) {
        let measured: Vec<Scenario> =
            points.iter().map(|point| point.scenario.without_objectives()).collect();
        for (place, point) in points.iter().enumerate() {
            if let Some(first) = measured[..place].iter().position(|other| *other == measured[place]) {
                let message = format!("combinations {} and {} are the same", first + 1, place + 1);
                let error = Problem::new(message, "remove one of the equal values");
                let name = if point.scenario.vary.is_empty() { "cases" } else { "vary" };
                self.add(error.at(vec![name.to_owned()]));
            }
        }
    }

    /// Converts an error of a point into one that names the axis or case with the invalid value.
    fn at_point(&self, problem: ScenarioProblem, point: &Point) -> LabError {
        let dotted = problem.place().join(".");
        let related = |path: &&String| dotted.starts_with(*path) || path.starts_with(&dotted);
        let Some((path, value)) = point.axes.keys().find(related).map(|path| (path, &point.axes[path]))
        else {
            return self.locate(problem);
        };
        let ScenarioProblem { problem, of_host } = problem;
        let message = with_value(path, value, &problem.message);
        let place = match point.scenario.vary.named(path) {
            Some(_) => vec!["vary".to_owned(), path.clone()],
            None => vec!["cases".to_owned()],
        };
        self.located(ScenarioProblem { problem: Problem { place, message, ..problem }, of_host }, false)
    }

    /// Adds the location of a problem: the last argument that sets the field; otherwise line, column and path of the
    /// field.
    fn locate(&self, problem: impl Into<ScenarioProblem>) -> LabError {
        self.located(problem, true)
    }

    fn located(&self, problem: impl Into<ScenarioProblem>, names_path: bool) -> LabError {
        let ScenarioProblem { problem: Problem { place: path, message, remedy }, of_host } = problem.into();
        let over = |laid: &&(Vec<String>, String)| laid.0.starts_with(&path) || path.starts_with(&laid.0);
        let laid_over = self.overlaid.iter().rev().find(over);
        let names_path = names_path && laid_over.is_none_or(|(laid, _)| path.len() > laid.len());
        let message = if names_path { format!("{}: {message}", overlay::written(&path)) } else { message };
        let at = match laid_over {
            Some((_, label)) => label.clone(),
            None => match place(&self.source.text, &path) {
                Some((line, column)) => format!("{}:{line}:{column}", self.source.name),
                None => self.source.name.clone(),
            },
        };
        let located = Problem::new(message, remedy).at(at);
        if of_host { LabError::Host(located) } else { LabError::Scenario(located) }
    }
}

fn of_argument(place: &str, error: Problem<()>) -> LabError {
    LabError::Scenario(error.at(place.to_owned()))
}

/// Splits `path=value`. The value is read as YAML, so that `0.5` is a number and `[1, 2]` a list.
fn split_set(set: &str) -> Result<(String, Value), Problem<()>> {
    let example = "use the form --set limits.data.cpus=0.5";
    let Some((path, value)) = set.split_once('=') else {
        return Err(Problem::new("the value is missing", example));
    };
    if value.trim().is_empty() {
        return Err(Problem::new("the value is missing", example));
    }
    let value = weir_document::read("the value", value).map_err(|error| error.at(()))?;
    Ok((path.trim().to_owned(), value))
}

/// Returns `scenario` with `value` at `path`. `from` is the axis or case that contains the value; only a case can set
/// an objective.
fn moved_by(
    scenario: &Scenario,
    from: &[String],
    path: &str,
    value: &Value,
) -> Result<Scenario, Problem<()>> {
    match (overlay::is_objective(path), from.first().is_some_and(|from| from == "cases")) {
        (true, true) => {}
        (true, false) => return Err(overlay::objective_axis()),
        (false, _) => overlay::may_vary(path)?,
    }
    laid(scenario, path, value.clone())
}

/// Puts the path and value of an axis or case before `message`.
fn with_value(path: &str, value: &Value, message: &str) -> String {
    format!("`{path}: {}`: {message}", without_url_credentials(&value.to_string()))
}

/// Returns `scenario` with `value` at `path`. Reads the changed scenario again, which detects invalid values.
fn laid(scenario: &Scenario, path: &str, value: Value) -> Result<Scenario, Problem<()>> {
    let mut document = serde_json::to_value(scenario).expect("a scenario always serializes to JSON");
    overlay::lay(&mut document, path, value)?;
    if let Some(reserved) = reserved::find(&document).first() {
        let Problem { message, remedy, .. } = reserved::error();
        let is_named = reserved.join(".") == path;
        let message = if is_named { message } else { format!("{}: {message}", overlay::written(reserved)) };
        return Err(Problem::new(message, remedy));
    }
    weir_document::read::<Scenario>("the scenario", &document.to_string()).map_err(|error| {
        // If a value has the wrong type, the reader's error does not name the field.
        let field = path.rsplit('.').next().unwrap_or(path);
        let named = error.message.contains(field) || error.message.starts_with("unknown field");
        let message = if named { error.message } else { format!("`{field}`: {}", error.message) };
        Problem::new(message, error.remedy)
    })
}
