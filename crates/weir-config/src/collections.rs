//! Maps and lists whose versions share the parts that did not change.

use std::collections::HashMap;

use foldhash::fast::RandomState;

mod pages;
mod sharded;

pub use pages::Pages;
pub(crate) use pages::Slots;
pub(crate) use sharded::Sharded;

/// A map for keys that come from the configuration. Its hash seed is random per process.
pub(crate) type FastMap<K, V> = HashMap<K, V, RandomState>;
