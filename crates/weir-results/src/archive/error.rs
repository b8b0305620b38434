//! Errors of archives, and their remedies.

use std::io;

/// An archive cannot be read. Every message contains the file name, and the line if possible.
///
/// Lines are counted from 1 in the decompressed text: `gzip -dc FILE | sed -n 3p` prints line 3.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read.
    #[error("{name}: cannot read the file: {source}")]
    Unreadable {
        /// Name of the file, as the user gave it.
        name: String,
        /// Why the file cannot be read.
        source: io::Error,
    },
    /// The file is not an archive.
    #[error("{name}: the file is not an archive of a run")]
    Foreign {
        /// Name of the file, as the user gave it.
        name: String,
    },
    /// The archive was written by a newer weir.
    #[error("{name}: the {what} has version {found}, but this weir supports versions up to {known}")]
    Newer {
        /// Name of the file, as the user gave it.
        name: String,
        /// The format whose version is too new: `archive` or `result schema`.
        what: &'static str,
        /// The version in the file.
        found: u32,
        /// Newest version that this program supports.
        known: u32,
        /// Version of the weir that wrote the file.
        weir_version: String,
    },
    /// The file ends before the end line.
    #[error("{name}: the file is incomplete: it ends in line {line}")]
    Cut {
        /// Name of the file, as the user gave it.
        name: String,
        /// The line in which the file ends.
        line: usize,
    },
    /// The file decompresses to far more than a normal archive of the same size.
    #[error("{name}: the file decompresses to more than {} times its size", super::limits::RATIO_MAX)]
    TooLarge {
        /// Name of the file, as the user gave it.
        name: String,
    },
    /// The content is invalid.
    #[error("{name}: line {line} is damaged: {detail}")]
    Damaged {
        /// Name of the file, as the user gave it.
        name: String,
        /// Number of the damaged line, from 1.
        line: usize,
        /// What is wrong with the line.
        detail: String,
    },
}

impl ArchiveError {
    /// How the user can fix the problem.
    pub fn remedy(&self) -> String {
        match self {
            Self::Unreadable { .. } => "use a readable file, or `-` for standard input".into(),
            Self::Foreign { .. } => {
                "use a file from `weir export RUN --format weir`; the other formats cannot be imported".into()
            }
            Self::Newer { weir_version, .. } => {
                format!("use weir {weir_version}, which wrote the file, or a later version")
            }
            Self::TooLarge { .. } => "nothing was imported; export the run again on its original host".into(),
            Self::Cut { .. } | Self::Damaged { .. } => {
                "nothing was imported; copy the file again, or export the run again on its original host"
                    .into()
            }
        }
    }

    /// Whether the file or its path is wrong. If not, the problem is on this machine.
    pub fn is_wrong_use(&self) -> bool {
        match self {
            Self::Unreadable { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory)
            }
            _ => true,
        }
    }
}
