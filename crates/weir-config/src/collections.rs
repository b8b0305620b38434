//! Maps and lists with cheap versions: a new version shares all unchanged parts with the previous one.

use std::collections::HashMap;

use foldhash::fast::RandomState;

mod pages;
mod sharded;

pub use pages::Pages;
pub(crate) use pages::Slots;
pub(crate) use sharded::Sharded;

/// A hash map for keys that come from the configuration. Its hash seed is random.
pub(crate) type FastMap<K, V> = HashMap<K, V, RandomState>;
