//! `weir agent`: generates load for a run on another machine.

use std::path::PathBuf;

use weir_agent::agent::{Options, run as take_part};
use weir_agent::{AgentError, Hello, PROTOCOL, Ticket};
use weir_lab::agents::ShardWork;
use weir_rig::{Binary, Rig};

use super::generate::until_signalled;
use crate::failure::{Exit, Failure};

/// Arguments of `weir agent`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of the run to join; `weir run` prints it
    #[arg(long, value_name = "HOST:PORT")]
    join: String,
    /// Ticket file of the run (weir.ticket); it is valid for that run only
    #[arg(long, value_name = "FILE")]
    ticket: PathBuf,
    /// Name of this agent in the report [default: the name of this host]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The run that started this agent limits and samples the agent's processes
    #[arg(long, hide = true)]
    sampled: bool,
}

/// Takes part in a run until the run ends, or until SIGINT or SIGTERM.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let stop = until_signalled()?;
    let ticket =
        Ticket::read(&args.ticket).map_err(|error| Failure::wrong_use(error.to_string(), error.remedy()))?;
    let name = args.name.unwrap_or_else(host_name);
    let rig = Rig::open_beside(&format!("agent-{}", ticket.run), !args.sampled)
        .map_err(|error| Failure::environment(error.to_string(), error.remedy()))?;
    let weir = Binary::own().map_err(|error| Failure::environment(error.to_string(), error.remedy()))?;
    let dir = rig.work_dir().to_owned();
    let hello = Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        name,
        cpus: weir_rig::usable_cpus().len() as u32,
        quota_cpus: weir_rig::quota_cpus(),
        boot_id: weir_rig::boot_id(),
        pid: std::process::id(),
    };
    let mut work = ShardWork::new(rig, weir);
    match take_part(&Options { join: args.join, ticket, hello, dir }, &mut work, &stop) {
        Ok(()) => Ok(Exit::Good),
        Err(AgentError::Stopped) => Ok(Exit::Interrupted),
        Err(error) => Err(Failure::environment(error.to_string(), error.remedy())),
    }
}

/// The host name in the kernel.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
