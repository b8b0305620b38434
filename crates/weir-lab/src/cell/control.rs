//! The positive control: measures a copy of a gateway that weir makes slower on purpose, with extra CPU time and
//! delayed responses.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_results::{
    ArrivalModel, Burned, CONTROL, Cell, CellKey, CellOutcome, Event, Measurement, Part, Role,
};
use weir_rig::{Binary, ProcessSpec, read_burner_record};

use super::error::{CellError, failed};
use super::origin::Upstream;
use crate::scenario::{Load, Scenario};

/// Timeout for the upstream to confirm that it delays its responses.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(2);

/// For each combination of axes, repeat and load: p50 latency, in nanoseconds, of the gateway that the positive control
/// copies.
#[derive(Debug, Default)]
pub(crate) struct Medians(RefCell<BTreeMap<(String, u32, String), u64>>);

impl Medians {
    /// Stores the p50 latencies of `cell` if it measured the gateway that the positive control copies.
    pub(crate) fn note(&self, scenario: &Scenario, cell: &Cell) {
        let is_its_gateway = scenario.control.is_some()
            && scenario.gateway(CONTROL).is_some_and(|of| of.name == cell.key.gateway);
        let CellOutcome::Measured { measurements } = &cell.outcome else { return };
        for measurement in measurements.iter().filter(|_| is_its_gateway) {
            if let Some(p50_ns) = measurement.record.result.latency_ns.p50 {
                self.0.borrow_mut().insert(place(&cell.key, &measurement.load), p50_ns);
            }
        }
    }

    /// The extra delay of the positive control in the load `name`: a share of the p50 latency that the copied gateway
    /// had in the same block. Zero in a search, and in closed loop, where a delay would change the load itself.
    pub(crate) fn delay(&self, scenario: &Scenario, key: &CellKey, name: &str, load: &Load) -> Duration {
        let is_open = load.model == ArrivalModel::Open && load.search.is_none();
        let share = scenario.control.as_ref().map_or(0.0, |control| control.share.0);
        let p50_ns = self.0.borrow().get(&place(key, name)).copied().filter(|_| is_open);
        Duration::from_nanos(p50_ns.unwrap_or(0)).mul_f64(share)
    }
}

fn place(key: &CellKey, load: &str) -> (String, u32, String) {
    let axes = serde_json::to_string(&key.axes).expect("axes always serialize to JSON");
    (axes, key.repeat, load.to_owned())
}

/// Returns `process`, unchanged in most cells. If it belongs to the data plane of the positive control, returns `weir
/// burn` instead, which runs `process` and uses extra CPU time beside it.
pub(super) fn burdened(
    process: &ProcessSpec,
    scenario: &Scenario,
    gateway: &str,
    weir: &Binary,
) -> ProcessSpec {
    let mut process = process.clone();
    let is_burdened = scenario.is_control(gateway) && process.role == Role::Data;
    if let Some(control) = scenario.control.as_ref().filter(|_| is_burdened) {
        let (weir, share) = (weir.path.display().to_string(), control.share.0.to_string());
        let record = record_of(&process.dir, &process.name).display().to_string();
        let words = [&weir, "burn", "--share", &share, "--record", &record, "--"];
        let mut command = words.map(str::to_owned).to_vec();
        command.append(&mut process.command);
        process.command = command;
    }
    process
}

/// The file where `weir burn` records the extra CPU time that it uses for the process `process`.
fn record_of(dir: &Path, process: &str) -> PathBuf {
    dir.join(format!("{process}.burned"))
}

/// The files where `weir burn` records the extra CPU time of the positive control; empty in other cells.
pub(super) struct Burners(Vec<PathBuf>);

impl Burners {
    /// The record files of the data plane's processes, in the folder `dir`; empty if `gateway` is not the positive
    /// control.
    pub(super) fn of(scenario: &Scenario, gateway: &str, dir: &Path, parts: &[Part]) -> Self {
        let data = parts.iter().filter(|part| scenario.is_control(gateway) && part.role == Role::Data);
        Self(data.map(|part| record_of(dir, &part.name)).collect())
    }

    /// CPU times so far, summed over all files: the gateway's CPU time, and the CPU time that the positive control
    /// burned.
    fn read(&self) -> Result<Burned, CellError> {
        let mut all = Burned::default();
        for path in &self.0 {
            let record = read_burner_record(path).map_err(|error| {
                let message = format!(
                    "positive control: cannot read the CPU time of its helper process (`weir burn`): {error}"
                );
                failed("died", &message, "see the log of the gateway", "")
            })?;
            all.used_ns += record.used_ns;
            all.burned_ns += record.burned_ns;
        }
        Ok(all)
    }

    /// Runs `measure`, and adds an event to each measurement. The event contains the CPU time that the gateway and
    /// `weir burn` used during `measure`.
    pub(super) fn around<T>(
        &self,
        measure: impl FnOnce() -> Result<(Vec<Measurement>, T), CellError>,
    ) -> Result<(Vec<Measurement>, T), CellError> {
        if self.0.is_empty() {
            return measure();
        }
        let before = self.read()?;
        let (mut measurements, more) = measure()?;
        let after = self.read()?;
        let burned = Burned {
            used_ns: after.used_ns.saturating_sub(before.used_ns),
            burned_ns: after.burned_ns.saturating_sub(before.burned_ns),
        };
        if burned.used_ns > 0 && burned.burned_ns == 0 {
            let message = "positive control: `weir burn` exited before the load";
            return Err(failed("died", message, "see the log of the gateway", ""));
        }
        let details = serde_json::to_value(burned).expect("counts always serialize to JSON");
        for measurement in &mut measurements {
            let (kind, details) = (Burned::KIND.to_owned(), details.clone());
            measurement.events.push(Event { t_s: 0.0, sustained: false, kind, details });
        }
        Ok((measurements, more))
    }
}

/// Makes weir's own upstream delay its responses. Does nothing for other servers, which cannot delay responses.
pub(super) fn delay_responses(upstream: &Upstream, delay: Duration) -> Result<(), CellError> {
    if upstream.delay.is_none() {
        return Ok(());
    }
    let path = format!("/__weir/delay/{}", delay.as_nanos());
    upstream.replicas.iter().try_for_each(|server| server.switch(&path, "delay responses", SWITCH_TIMEOUT))
}
