//! Compression of responses: its configuration, and the policy that the data plane applies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_document::{Problem, Size};

use crate::model::forms::is_token;

/// Allowed levels of gzip.
const GZIP_LEVELS: std::ops::RangeInclusive<u32> = 1..=9;
/// Allowed levels of Brotli. Higher levels need tables of 8 MiB and more per response.
const BROTLI_LEVELS: std::ops::RangeInclusive<u32> = 1..=6;
/// The gzip level if neither `gzip` nor `brotli` is set.
const GZIP_DEFAULT: u32 = 5;
/// The Brotli level if neither `gzip` nor `brotli` is set.
const BROTLI_DEFAULT: u32 = 4;

/// The media types that are compressed by default.
const TYPES: [&str; 12] = [
    "text/*",
    "application/atom+xml",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/problem+json",
    "application/rss+xml",
    "application/wasm",
    "application/xhtml+xml",
    "application/xml",
    "image/svg+xml",
];

/// Compress responses for clients that accept it (`Accept-Encoding`). If neither `gzip` nor `brotli` is set, the
/// gateway offers both at their default levels; if one is set, only that one. The client's weights decide; if they are
/// equal, Brotli comes before gzip, and both before `identity`. Clients without `Accept-Encoding`, HTTP/1.0 clients,
/// HEAD requests and clients that refuse every coding get the upstream's response unchanged.
///
/// Not compressed: statuses 204, 205, 206 and 304, interim responses, responses of the gateway itself, and responses
/// with `Content-Encoding`, `Content-Range`, a digest of the content or `Cache-Control: no-transform`. The gateway
/// applies `response_headers` before it checks the headers of the response. Upstreams get the client's
/// `Accept-Encoding`.
///
/// A compressed response is chunked. It has `Content-Encoding`, but neither `Content-Length` nor `Accept-Ranges`. A
/// strong `ETag` becomes weak. Responses that would be compressed for another client, and each 304, get
/// `Vary: Accept-Encoding`. Data is compressed as it arrives (up to 32 KiB at a time). Compressing a response needs up
/// to 0.6 MiB of memory for gzip and 4 MiB for Brotli.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Compress {
    /// Media types to compress, `type/subtype`, `type/*` or `*/*`. Parameters and case are ignored.
    #[schemars(length(min = 1), example = json!(["text/*", "application/json"]))]
    pub types: Vec<String>,
    /// Minimum `Content-Length` to compress a body. Bodies of unknown length are always compressed.
    pub min_size: Size,
    /// Offer gzip at this level, 1 (fast) to 9 (small).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *GZIP_LEVELS.start(), max = *GZIP_LEVELS.end()), example = 6)]
    #[schemars(extend("x-default" = "5, or not offered if only `brotli` is set"))]
    pub gzip: Option<u32>,
    /// Offer Brotli at this level, 1 (fast) to 6 (small).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *BROTLI_LEVELS.start(), max = *BROTLI_LEVELS.end()), example = 5)]
    #[schemars(extend("x-default" = "4, or not offered if only `gzip` is set"))]
    pub brotli: Option<u32>,
}

impl Default for Compress {
    fn default() -> Compress {
        Compress { types: TYPES.map(str::to_owned).into(), min_size: Size(1024), gzip: None, brotli: None }
    }
}

/// Validates `compress`. `place` is the path of its field, for messages.
pub(super) fn check_compress(place: &str, compress: &Compress) -> Result<(), Problem> {
    if compress.types.is_empty() {
        return Err(Problem::of(
            format!("{place}.types"),
            "the list is empty: the gateway would compress nothing",
        )
        .help("remove the field to use the default types, or remove `compress`"));
    }
    if let Some(index) = compress.types.iter().position(|kind| !is_media_type(kind)) {
        let message = format!("`{}` is not a media type", compress.types[index].escape_debug());
        return Err(Problem::of(format!("{place}.types[{index}]"), message)
            .help("write it like `application/json` or `text/*`"));
    }
    for (field, level, levels) in
        [("gzip", compress.gzip, GZIP_LEVELS), ("brotli", compress.brotli, BROTLI_LEVELS)]
    {
        if let Some(level) = level.filter(|level| !levels.contains(level)) {
            let message =
                format!("level {level} is out of range; allowed: {} to {}", levels.start(), levels.end());
            let remedy = match level {
                0 if field == "gzip" => "to offer only Brotli, remove `gzip` and set `brotli`",
                0 => "to offer only gzip, remove `brotli` and set `gzip`",
                _ if field == "brotli" => {
                    "use 4; higher levels are too slow to compress responses on the fly"
                }
                _ => "use 5, the default",
            };
            return Err(Problem::of(format!("{place}.{field}"), message).help(remedy));
        }
    }
    Ok(())
}

fn is_media_type(text: &str) -> bool {
    text.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
}

/// The settings of `compress` in the form that the data plane uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressPolicy {
    types: Box<[Box<str>]>,
    /// Minimum length of a body in bytes, if the length is known.
    pub min_bytes: u64,
    /// The gzip level; `None` if gzip is not offered.
    pub gzip: Option<u32>,
    /// The Brotli level; `None` if Brotli is not offered.
    pub brotli: Option<u32>,
}

impl CompressPolicy {
    /// Compiles valid settings.
    pub(super) fn of(compress: &Compress) -> CompressPolicy {
        let (gzip, brotli) = match (compress.gzip, compress.brotli) {
            (None, None) => (Some(GZIP_DEFAULT), Some(BROTLI_DEFAULT)),
            configured => configured,
        };
        let types = compress.types.iter().map(|kind| kind.as_str().into()).collect();
        CompressPolicy { types, min_bytes: compress.min_size.0, gzip, brotli }
    }

    /// Whether responses with this `Content-Type` may be compressed.
    pub fn matches(&self, content_type: &[u8]) -> bool {
        let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        self.types.iter().any(|kind| match kind.strip_suffix("/*") {
            Some("*") => essence.contains(&b'/'),
            Some(kind) => essence.split_at_checked(kind.len()).is_some_and(|(start, rest)| {
                start.eq_ignore_ascii_case(kind.as_bytes()) && rest.starts_with(b"/")
            }),
            None => essence.eq_ignore_ascii_case(kind.as_bytes()),
        })
    }

    /// The media types, as configured.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.types.iter().map(|kind| &**kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(types: &[&str]) -> CompressPolicy {
        let types = types.iter().map(|kind| (*kind).to_owned()).collect();
        CompressPolicy::of(&Compress { types, ..Compress::default() })
    }

    #[test]
    fn matches_media_types_and_wildcards() {
        let check = |types: &[&str], content_type: &str, expected: bool| {
            assert_eq!(policy(types).matches(content_type.as_bytes()), expected, "{types:?} {content_type}");
        };
        check(&["text/*"], "text/html", true);
        check(&["text/*"], "TEXT/html; charset=utf-8", true);
        check(&["text/*"], "texts/html", false);
        check(&["text/*"], "text", false);
        check(&["text/*"], "", false);
        check(&["application/json"], "application/json;a=b", true);
        check(&["application/json"], " Application/JSON ", true);
        check(&["application/json"], "application/json5", false);
        check(&["*/*"], "a/b", true);
        check(&["*/*"], "a", false);
        let usual = CompressPolicy::of(&Compress::default());
        assert!(usual.matches(b"application/javascript") && !usual.matches(b"image/png"));
    }

    #[test]
    fn configured_level_selects_the_coding() {
        let offered = |gzip, brotli| {
            let policy = CompressPolicy::of(&Compress { gzip, brotli, ..Compress::default() });
            (policy.gzip, policy.brotli)
        };
        assert_eq!(offered(None, None), (Some(GZIP_DEFAULT), Some(BROTLI_DEFAULT)));
        assert_eq!(offered(Some(9), None), (Some(9), None));
        assert_eq!(offered(None, Some(1)), (None, Some(1)));
        assert_eq!(offered(Some(1), Some(6)), (Some(1), Some(6)));
    }
}
