//! Systems under test: find, configure, limit, launch, sample and stop them.
//!
//! A [`Rig`] reserves this host for one run. [`Drivers`] describe gateways; a [`Driver`] renders a [`Binding`] into
//! [`ProcessSpec`]s, and [`Rig::launch`] starts them as [`Running`] processes under [`Limits`]. A [`Sampler`] samples
//! their resources, a [`CounterSource`] reads the counters of a gateway. [`prometheus`] reads the resources of remote
//! gateways. Even if the lab (the weir process of the run) is killed, everything that the rig started or created is
//! removed.

mod ask;
mod burner;
mod certificates;
mod cleanup;
mod clock;
mod digest;
mod driver;
mod engine;
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

pub use ask::{Answer, ask};
pub use burner::{BurnerRecord, burn, exec_with_burner, read_burner_record};
pub use certificates::{CertificateFiles, Certificates, DomainCertificate, tokens};
pub use cleanup::run_guard;
pub use clock::mono_ns;
pub use driver::*;
pub use engine::{Engine, EngineKind, Engines, Image, ImageName};
pub use error::RigError;
pub use holder::{Holder, Occupant};
pub use host::{boot_id, usable_cpus};
pub use http::{Asked, Credentials, certificate_of, status_of};
pub use launch::{ProcessSpec, Ready, Running, in_own_session};
pub use limits::quota_cpus;
pub use limits::{CgroupVersion, Limits, start_again_in_scope};
pub use namespace::Namespace;
pub use rig::{Rig, RigOptions, disturbance, try_limits, try_namespaces};
pub use sample::{PartReading, ProcessSet, Sampler, Samples};
