//! Systems under test: how they are found, configured, limited, launched, watched and ended.
//!
//! A [`Rig`] holds the host for a run. [`Drivers`] know the gateways; a [`Driver`] renders one for a [`Binding`]
//! into [`ProcessSpec`]s, which [`Rig::launch`] turns into [`Running`] processes under [`Limits`]. A [`Sampler`]
//! reads what they use, a [`CounterSource`] what a gateway counted. [`prometheus`] has what gateways used that run
//! elsewhere. Whatever happens to the lab, nothing that the rig started or made outlives it.

mod certificates;
mod cleanup;
mod clock;
mod digest;
mod driver;
mod error;
mod holder;
mod host;
mod http;
mod launch;
mod limits;
mod namespace;
pub mod prometheus;
mod rig;
mod sample;

pub use certificates::{Certificates, DomainCertificate, tokens};
pub use cleanup::run_guard;
pub use clock::mono_ns;
pub use driver::*;
pub use error::RigError;
pub use holder::{Holder, Occupant};
pub use host::usable_cpus;
pub use http::{Credentials, certificate_of, status_of};
pub use launch::{ProcessSpec, Ready, Running, in_own_session};
pub use limits::{CgroupVersion, Limits, start_again_in_scope};
pub use namespace::Namespace;
pub use rig::{Rig, RigOptions, disturbance, try_limits, try_namespaces};
pub use sample::{Sampler, Samples};
