//! Expiry of the certificates of listeners.

mod validity;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde::Serialize;
use weir_config::{ShownCertificate, Table};

use validity::validity;

const DAY_SECONDS: i64 = 24 * 3600;

/// A certificate of a listener.
#[derive(Debug, Serialize)]
pub(crate) struct CertificatePage {
    listener: String,
    file: String,
    names: Vec<String>,
    not_before: String,
    not_after: String,
    /// Whole days until `not_after`; negative after it.
    days_left: i64,
}

/// All certificates of the listeners in `table`, sorted by expiry.
pub(crate) fn pages(table: &Table) -> Vec<CertificatePage> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
    let page = |shown: &ShownCertificate| {
        let (not_before, not_after) = validity(shown.der())?;
        let time = |seconds| Timestamp::from_second(seconds).map_or(String::new(), |time| time.to_string());
        Some(CertificatePage {
            listener: shown.listener.clone(),
            file: shown.file.clone(),
            names: shown.names(),
            not_before: time(not_before),
            not_after: time(not_after),
            days_left: (not_after - now).div_euclid(DAY_SECONDS),
        })
    };
    let mut pages: Vec<CertificatePage> = table.certificates().iter().filter_map(page).collect();
    pages.sort_by_key(|page| page.days_left);
    pages
}

/// The earliest expiry of a certificate per listener, in seconds since 1970.
pub(crate) fn first_ends(table: &Table) -> BTreeMap<String, i64> {
    let mut ends = BTreeMap::new();
    for shown in table.certificates() {
        if let Some((_, not_after)) = validity(shown.der()) {
            let end = ends.entry(shown.listener.clone()).or_insert(not_after);
            *end = not_after.min(*end);
        }
    }
    ends
}
