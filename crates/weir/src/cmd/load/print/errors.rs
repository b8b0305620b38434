//! The errors of a load, with their causes and remedies.

use weir_analysis::quantity::{percent, percent_short};
use weir_engine::{CertificateRejection, LoadSpec};
use weir_results::words::plural;
use weir_results::{Errors, LoadResult, Thresholds};

use super::figures::{counted, grouped, time};

/// The rows about errors: counts of requests by kind of failure, then causes and messages.
pub(super) fn rows(spec: &LoadSpec, result: &LoadResult) -> Vec<(&'static str, String)> {
    let requests = &result.requests;
    let timeout = time(spec.timeout_ns as f64);
    let columns = [
        ("unexpected", requests.unexpected, "a status of 400 or more, or a failed check".to_owned()),
        ("failed", requests.failed, "broken connection or malformed response".to_owned()),
        ("timed out", requests.timed_out, format!("no complete response within {timeout}")),
        ("dropped", requests.dropped, format!("not sent within {timeout}")),
    ];
    let causes: Vec<String> =
        causes(&result.errors).map(|(name, count)| format!("{name} {}", grouped(count))).collect();
    let all: u64 = columns.iter().map(|(_, count, _)| count).sum();
    let mut rows = Vec::new();
    match requests.error_share().filter(|_| all > 0) {
        Some(share) => {
            let allowed = percent_short(Thresholds::default().error_share);
            let (all, of) = (grouped(all), counted(requests.scheduled, "scheduled request"));
            rows.push(("errors", format!("{all} of {of} ({}; valid up to {allowed})", percent(share))));
        }
        None if requests.scheduled == 0 => {
            rows.push(("errors", "no request could be sent: no connection was opened".to_owned()))
        }
        // A connection may fail while no request is using it.
        None if !causes.is_empty() => {
            rows.push((
                "errors",
                "no request failed, but connections were lost or could not be opened".to_owned(),
            ));
        }
        None => rows.push(("errors", "none".to_owned())),
    }
    for (name, count, what) in columns.into_iter().filter(|(_, count, _)| *count > 0) {
        rows.push(("", format!("{} {name}: {what}", grouped(count))));
    }
    if !causes.is_empty() {
        rows.push(("causes", causes.join(", ")));
    }
    for (at, (said, count)) in result.said.iter().enumerate() {
        let name = if at == 0 && causes.is_empty() { "causes" } else { "" };
        rows.push((name, format!("{}: {said}", counted(*count, "time"))));
    }
    rows
}

/// The remedies for the errors that weir recognizes. Each remedy is listed once.
pub(super) fn help(spec: &LoadSpec, result: &LoadResult) -> Vec<String> {
    let mut help = Vec::new();
    for fault in result.said.keys().filter_map(|said| CertificateRejection::of_said(said)) {
        let way_out = match fault {
            CertificateRejection::UnknownAuthority => {
                "trust the CA of the certificate with --cacert FILE, or skip the verification with -k"
            }
            CertificateRejection::AuthorityAsServer => {
                "use a server certificate that the CA has signed and that contains `CA:FALSE`, or skip the \
                verification with -k"
            }
            CertificateRejection::WrongName => {
                "use a host name from the certificate, in the URL or with --sni NAME, or skip the verification with -k"
            }
            CertificateRejection::Expired => {
                "renew the certificate, check this host's clock, or skip the verification with -k"
            }
            CertificateRejection::NotYetValid => {
                "check the clocks of both hosts, or skip the verification with -k"
            }
        };
        if !help.iter().any(|given| given == way_out) {
            help.push(way_out.to_owned());
        }
    }
    let completed = result.requests.completed;
    if completed == 0 && result.errors.refused > 0 {
        help.push(format!("nothing listens at {}; start the server, or correct host and port", spec.connect));
    }
    if completed == 0 && result.requests.timed_out > 0 {
        let requests = plural(result.requests.timed_out, "request");
        help.push(format!(
            "the server received the {requests} but did not respond in time; check the server, or raise --timeout"
        ));
    }
    help
}

/// The causes that occurred, each with its count.
fn causes(errors: &Errors) -> impl Iterator<Item = (String, u64)> {
    let seen = errors.by_cause().into_iter().filter(|&(_, count)| count > 0);
    seen.map(|(name, count)| (name.replace('_', " "), count))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_results::Requests;

    use super::super::parts::tests::result;
    use super::*;

    #[track_caller]
    fn check(result: &LoadResult, expected: &[&str]) {
        let spec = LoadSpec { connect: "a:80".into(), ..LoadSpec::default() };
        let rows: Vec<String> =
            rows(&spec, result).iter().map(|(name, text)| format!("{name}|{text}")).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn errors_include_failed_checks_statuses_and_timeouts() {
        let good = Requests { scheduled: 1_000, completed: 1_000, ..Requests::default() };
        check(&LoadResult { requests: good, ..result() }, &["errors|none"]);
        let said =
            BTreeMap::from([("check: status is not 2xx".to_owned(), 100), ("HTTP/1.1: x".to_owned(), 1)]);
        let errors = Errors { reset: 39, parse: 1, ..Errors::default() };
        let requests =
            Requests { completed: 940, unexpected: 100, failed: 40, timed_out: 15, dropped: 5, ..good };
        check(
            &LoadResult { requests, said, errors, ..result() },
            &[
                "errors|160 of 1,000 scheduled requests (16.0 %; valid up to 0.1 %)",
                "|100 unexpected: a status of 400 or more, or a failed check",
                "|40 failed: broken connection or malformed response",
                "|15 timed out: no complete response within 10 s",
                "|5 dropped: not sent within 10 s",
                "causes|reset 39, parse 1",
                "|1 time: HTTP/1.1: x",
                "|100 times: check: status is not 2xx",
            ],
        );
        let said = BTreeMap::from([("check: status is not 2xx".to_owned(), 1)]);
        let requests = Requests { scheduled: 1, completed: 1, unexpected: 1, ..Requests::default() };
        check(
            &LoadResult { requests, said, ..result() },
            &[
                "errors|1 of 1 scheduled request (100 %; valid up to 0.1 %)",
                "|1 unexpected: a status of 400 or more, or a failed check",
                "causes|1 time: check: status is not 2xx",
            ],
        );
    }

    #[test]
    fn lost_connections_without_requests_are_reported() {
        let requests = Requests { scheduled: 10, completed: 10, ..Requests::default() };
        let errors = Errors { refused: 3, ..Errors::default() };
        check(
            &LoadResult { requests, errors, ..result() },
            &[
                "errors|no request failed, but connections were lost or could not be opened",
                "causes|refused 3",
            ],
        );
        check(
            &LoadResult { errors, ..result() },
            &["errors|no request could be sent: no connection was opened", "causes|refused 3"],
        );
    }
}
