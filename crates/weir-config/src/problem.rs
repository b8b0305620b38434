//! Problems of a configuration. The place is the field: `routes[3].backend`.

use weir_document::Problem;

/// The problem of an empty file name.
pub(crate) fn no_file(place: impl Into<String>) -> Problem {
    Problem::of(place, "the file name is empty")
        .help("write a file name, relative to the directory of the configuration")
}

/// The problems found by independent checks.
pub(crate) fn failed<const N: usize>(checked: [Result<(), Problem>; N]) -> Vec<Problem> {
    checked.into_iter().filter_map(Result::err).collect()
}
