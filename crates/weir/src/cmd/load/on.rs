//! A load over several agents: `weir load URL --on local:4`.

use std::sync::atomic::AtomicBool;

use weir_agent::Look;
use weir_engine::{LiveSecond, LoadSpec, ShardSpec};
use weir_lab::agents::{Crew, CrewError, Joining, Place};
use weir_results::LoadRecord;
use weir_rig::{Binary, Rig, RigError};

use super::super::output::note;
use super::Args;
use crate::failure::Failure;

/// Starts the agents, or waits for them, and runs the load over all. `heard` gets the seconds of each agent.
pub(super) fn run(
    args: &Args,
    place: &Place,
    spec: &LoadSpec,
    heard: &dyn Fn(&str, &LiveSecond),
    stop: &AtomicBool,
) -> Result<LoadRecord, Failure> {
    if matches!(place, Place::Namespaces(_)) {
        let message = "--on: agents in network namespaces reach only servers that `weir run` starts there";
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
    };
    let mut crew = Crew::start(&rig, &joining, &|words| note(words)).map_err(|error| told(&error))?;
    let names: Vec<String> = crew.agents().iter().map(|agent| agent.name.clone()).collect();
    let measured = crew.run(spec, stop, &mut |look| {
        if let Look::Second(place, second) = look {
            heard(&names[place], second);
        }
        Ok::<_, CrewError>(())
    });
    let record = measured.map(|(record, _)| record).map_err(|error| told(&error));
    drop(crew);
    rig.close().map_err(failed)?;
    record
}

fn told(error: &CrewError) -> Failure {
    Failure::environment(error.to_string(), error.remedy())
}
