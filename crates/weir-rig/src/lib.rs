//! Systems under test: how they are found, configured, limited, launched, watched and ended.
//!
//! A [`Rig`] holds the host for a run. [`Drivers`] know the gateways; a [`Driver`] renders one for a [`Binding`]
//! into [`ProcessSpec`]s, which [`Rig::launch`] turns into [`Running`] processes under [`Limits`]. A [`Sampler`]
//! reads what they use, a [`CounterSource`] what a gateway counted. [`prometheus`] has what gateways used that run
//! elsewhere. Whatever happens to the lab, nothing that the rig started or made outlives it.

mod affinity;
mod certificates;
mod cleanup;
mod counters;
mod delegation;
mod digest;
mod driver;
mod elsewhere;
mod error;
mod guard;
mod hierarchy;
mod host;
mod http;
mod ledger;
mod limits;
mod lock;
mod logs;
mod namespace;
mod ports;
mod process;
pub mod prometheus;
mod rig;
mod running;
mod sample;
mod secured;
mod spawn;
mod trial;

pub use certificates::{Certificates, DomainCertificate, tokens};
pub use counters::CounterSource;
pub use delegation::start_again_in_scope;
pub use driver::*;
pub use error::{Holder, RigError};
pub use guard::run_guard;
pub use host::usable_cpus;
pub use http::{certificate_of, status_of};
pub use limits::{CgroupVersion, Limits};
pub use lock::Occupant;
pub use namespace::Namespace;
pub use process::{ProcessSpec, Ready};
pub use rig::{Rig, RigOptions};
pub use running::Running;
pub use sample::{Sampler, Samples, mono_ns};
pub use secured::Credentials;
pub use spawn::in_own_session;
pub use trial::{disturbance, try_limits, try_namespaces};
