//! Problems of a configuration. Their place is the path of a field, such as `routes[3].backend`.

use weir_document::Problem;

/// The problem to report for the field `place`, which contains an empty file name.
pub(crate) fn no_file(place: impl Into<String>) -> Problem {
    Problem::of(place, "the file name is empty")
        .help("write a file name, relative to the directory of the configuration")
}

/// Collects the problems of independent checks.
pub(crate) fn failed<const N: usize>(checked: [Result<(), Problem>; N]) -> Vec<Problem> {
    checked.into_iter().filter_map(Result::err).collect()
}
