//! Reports the objective as JUnit tests for continuous integration: one suite per gateway, and one test per load point
//! and limit of the objective. A missed limit is a failure. An undecided limit is a skipped test with the reason. A
//! failed cell is an error.

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};
use weir_analysis::{FailedCell, Met, ObjectiveResult, Summary};
use weir_results::{DIRECT, Run};

use crate::sections::cells::cell_name;

/// The `type` attribute of a test whose limit was missed. JUnit viewers group tests by this attribute.
const MISSED: &str = "objective-missed";
/// The `type` attribute of a test whose limit is undecided.
const UNKNOWN: &str = "objective-unknown";

/// Draws the JUnit document.
///
/// # Errors
/// If the document cannot be written, which is a bug in weir.
pub(crate) fn draw(run: &Run, summary: &Summary) -> Result<String, SerializeError> {
    let mut report = Report::new(run.name.clone());
    let mut names: Vec<&str> = summary.gateways.iter().map(|gateway| gateway.name.as_str()).collect();
    // The second direct baseline is not a gateway, but its cells can also fail.
    for failed in &summary.failed {
        if !names.contains(&failed.key.gateway.as_str()) {
            names.push(&failed.key.gateway);
        }
    }
    for name in names {
        let suite = suite(run, summary, name);
        // The direct baseline has no objective. It has a suite only if one of its cells failed.
        if name != DIRECT || suite.tests > 0 {
            report.add_test_suite(suite);
        }
    }
    report.to_string()
}

fn suite(run: &Run, summary: &Summary, gateway: &str) -> TestSuite {
    let mut suite = TestSuite::new(gateway.to_owned());
    suite.add_property(("run".to_owned(), run.id.clone()));
    for of in run.thresholds.relaxed() {
        suite
            .add_property((format!("relaxed.{}", of.name), format!("{} (default {})", of.value, of.default)));
    }
    for point in &summary.points {
        let rows = point.gateways().filter(|row| row.gateway == gateway);
        for result in rows.flat_map(|row| &row.objective) {
            suite.add_test_case(test(run, gateway, &point.words(), result));
        }
    }
    for of in summary.finding_objectives.iter().filter(|of| of.gateway == gateway) {
        suite.add_test_case(test(run, gateway, &of.place, &of.result));
    }
    for failed in summary.failed.iter().filter(|failed| failed.key.gateway == gateway) {
        suite.add_test_case(error(run, gateway, failed));
    }
    suite
}

fn test(run: &Run, gateway: &str, place: &str, result: &ObjectiveResult) -> TestCase {
    let status = match result.met {
        Met::Met => TestCaseStatus::success(),
        Met::Missed => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(MISSED).set_message(result.words.clone());
            status.set_description(format!("{gateway}, {place}: {}", result.words));
            status
        }
        Met::Unknown => {
            let mut status = TestCaseStatus::skipped();
            status.set_type(UNKNOWN).set_message(result.words.clone());
            status
        }
    };
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    let mut test = TestCase::new(format!("{place}{}", result.bound()), status);
    test.set_classname(format!("{}.{gateway}", run.name)).set_system_out(result.words.clone());
    test
}

fn error(run: &Run, gateway: &str, failed: &FailedCell) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_type(failed.cause.clone()).set_message(failed.message.clone());
    status.set_description(format!("{}\n{}", failed.message, failed.remedy));
    let mut test = TestCase::new(cell_name(&failed.key), status);
    test.set_classname(format!("{}.{gateway}", run.name));
    if !failed.log_tail.is_empty() {
        test.set_system_err(failed.log_tail.clone());
    }
    test
}
