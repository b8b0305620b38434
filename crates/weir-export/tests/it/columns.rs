//! The descriptions of columns in the reference.

use weir_export::{ColumnDescription, columns, findings_columns};

fn check(columns: &[ColumnDescription]) {
    for column in columns {
        assert!(
            column.meaning.ends_with('.') && !column.meaning.starts_with(char::is_lowercase),
            "{column:?}"
        );
        assert!(!column.kind.is_empty() && !column.meaning.contains("WHO"), "{column:?}");
    }
    let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn every_column_has_a_meaning_and_a_unique_name() {
    check(&columns());
    check(&findings_columns());
    assert!(columns().len() > 200);
}

#[test]
fn quantiles_are_described_in_words() {
    let columns = columns();
    for (name, start) in [
        ("latency_ns_min", "Minimum latency, "),
        ("latency_ns_p50", "Median latency, "),
        ("latency_ns_p99", "99th percentile of the latency, "),
        ("service_time_ns_p9999", "99.99th percentile of the service time, "),
        ("rate_per_s_low", "Lower bound of `rate_per_s`; "),
        ("service_cpu_cores", "Cores that the gateway's services used: "),
    ] {
        let column = columns.iter().find(|column| column.name == name).expect(name);
        assert!(column.meaning.starts_with(start), "{column:?}");
    }
}
