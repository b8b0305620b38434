//! One file per subcommand: arguments in, calls into the libraries, an exit code out.

pub(crate) mod agent;
pub(crate) mod burn;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod database;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod gate;
pub(crate) mod generate;
pub(crate) mod guard;
pub(crate) mod hint;
pub(crate) mod import;
pub(crate) mod known;
pub(crate) mod load;
pub(crate) mod origin;
pub(crate) mod output;
#[cfg(feature = "nats")]
pub(crate) mod publish;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod scope;
pub(crate) mod size;
pub(crate) mod slow;
