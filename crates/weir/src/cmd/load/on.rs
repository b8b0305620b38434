//! Drives a load with several agents: `weir load URL --on local:4`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_agent::{AgentError, Look};
use weir_engine::{LiveSecond, LoadSpec, ShardSpec};
use weir_lab::agents::{Crew, CrewError, Joining, Place, Stop, nearest_to_limit};
use weir_results::{LoadRecord, Usage};
use weir_rig::{Binary, Rig, RigError};

use super::super::output::note;
use super::Args;
use crate::failure::Failure;

/// Starts the agents or waits for them, and lets them drive the load together. `heard` is called for every second of
/// each agent. If `stop` is set, the load ends early, with a partial result if it has started.
pub(super) fn run(
    args: &Args,
    place: &Place,
    spec: &LoadSpec,
    heard: &dyn Fn(&str, &LiveSecond),
    stop: &Arc<AtomicBool>,
) -> Result<Option<(LoadRecord, Option<Usage>)>, Failure> {
    if matches!(place, Place::Pods(_)) {
        let message = "--on: `weir load` cannot start agents in pods";
        return Err(Failure::wrong_use(
            message,
            "use `weir run SCENARIO --on k8s`, or --on agents:N or ssh:HOST",
        ));
    }
    if matches!(place, Place::Namespaces(_)) {
        let message = "--on: agents in network namespaces can reach only servers that `weir run` starts in network namespaces";
        return Err(Failure::wrong_use(message, "use local:N, agents:N or ssh:HOST"));
    }
    let shared = LoadSpec { shard: Some(ShardSpec { index: 0, of: place.agents() }), ..spec.clone() };
    shared.validate().map_err(|error| super::failure(args, &error))?;
    let failed = |error: RigError| Failure::environment(error.to_string(), error.remedy());
    let run = format!("load-{}", std::process::id());
    let rig = Rig::open_beside(&run, true).map_err(failed)?;
    let weir = Binary::own().map_err(failed)?;
    let joining = Joining {
        place,
        called: "agent",
        is_load: true,
        weir: &weir,
        run: &run,
        listen: args.running.listen,
        ticket: args.running.ticket.clone(),
        stop,
        pods: None,
    };
    let mut crew = match Crew::start(&rig, &joining, &|words| note(words)) {
        Ok(crew) => crew,
        Err(error) if is_stopped(&error) => {
            rig.close().map_err(failed)?;
            return Ok(None);
        }
        Err(error) => return Err(reported(&error)),
    };
    let names: Vec<String> = crew.agents().iter().map(|agent| agent.name.clone()).collect();
    let measured = crew.run(spec, &Stop::EndsEarly(stop), &mut |look| {
        if let Look::Second(place, second) = look {
            heard(&names[place], second);
        }
        Ok::<_, CrewError>(())
    });
    drop(crew);
    rig.close().map_err(failed)?;
    match measured {
        Ok((record, measured)) => {
            let usage = nearest_to_limit(measured.iter().filter_map(|of| of.report.usage.as_ref()));
            Ok(Some((record, usage.cloned())))
        }
        Err(error) if is_stopped(&error) => Ok(None),
        Err(error) => Err(reported(&error)),
    }
}

/// Whether the error means that the user has stopped the load.
fn is_stopped(error: &CrewError) -> bool {
    matches!(error, CrewError::Stopped | CrewError::Agent(AgentError::Stopped))
}

fn reported(error: &CrewError) -> Failure {
    Failure::environment(error.to_string(), error.remedy())
}
