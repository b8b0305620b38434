//! One file per subcommand: arguments in, calls into the libraries, an exit code out.

pub mod completions;
pub mod doctor;
pub mod generate;
pub mod guard;
pub mod load;
pub mod origin;
pub mod render;
pub mod report;
pub mod run;
pub mod runs;
pub mod schema;
