//! Typed documents: reads YAML and JSON into types, and reports errors with their position. Also quantities with units.
//!
//! ```
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Load { duration: weir_document::Time }
//!
//! let error = weir_document::read::<Load>("side.yaml", "durations: 10s\n").err().unwrap();
//! assert_eq!(error.to_string(), "side.yaml:1:1: unknown field `durations`");
//! assert_eq!(error.remedy, "did you mean `duration`?");
//! ```

mod asked_rate;
mod delay;
mod drift;
mod error;
mod growth;
mod json;
mod levels;
mod moments;
mod named;
mod nearest;
mod part;
mod place;
mod price;
mod problem;
mod quantity;
mod rate;
mod seek;
mod share;
mod size;
mod slow;
mod stall;
mod stream;
mod time;
mod word;
mod yaml;

use serde::de::DeserializeOwned;

pub use asked_rate::{AskedRate, AskedRates};
pub use delay::{DELAY_MAX, Delay};
pub use drift::Drift;
pub use growth::Growth;
pub use levels::{Counts, Level, Levels, Rates};
pub use moments::{Burst, Pause};
pub use named::Named;
pub use nearest::nearest;
pub use part::{Part, wrong_part};
pub use place::{place, place_of_field, place_of_key};
pub use price::Price;
pub use problem::{Position, Problem};
pub use quantity::QuantityError;
pub use rate::Rate;
pub use share::Share;
pub use size::Size;
pub use slow::Slow;
pub use stall::Stall;
pub use stream::{StreamPart, documents};
pub use time::Time;
pub use word::read_word;

/// Reads one document from `text`. `source_name` is the file name as the user gave it, for errors.
///
/// If the name ends in `.json`, the text must be JSON. Any other text that begins with `{` or `[` is first read as
/// JSON, which is several times faster than YAML. If the text is not JSON, it is read as YAML.
///
/// When a type rejects a value, its error text may contain a remedy after `"; "`: `"10 has no unit; write 10ms"`.
pub fn read<T: DeserializeOwned>(source_name: &str, text: &str) -> Result<T, Problem<Position>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_blank(text) {
        return Err(error::empty(source_name));
    }
    if source_name.ends_with(".json") {
        return json::read(text).map_err(|error| error.at(source_name, text));
    }
    if text.trim_start().starts_with(['{', '[']) {
        match json::read(text) {
            Ok(value) => return Ok(value),
            Err(error) if error.is_syntax() => {}
            Err(error) => return Err(error.at(source_name, text)),
        }
    }
    yaml::read(source_name, text)
}

/// Whether the text contains only white space, comments and document markers.
pub(crate) fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}
