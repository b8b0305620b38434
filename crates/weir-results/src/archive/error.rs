//! Errors of archives, and their remedies.

use std::io;

/// An archive that cannot be read. Every message names the file, and the line if possible.
///
/// Lines count from 1 in the decompressed text: `gzip -dc FILE | sed -n 3p` prints line 3.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read.
    #[error("{name}: cannot read the file: {source}")]
    Unreadable {
        /// The file.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Another kind of file.
    #[error("{name}: the file is not an archive of a run")]
    Foreign {
        /// The file.
        name: String,
    },
    /// Written by a newer weir.
    #[error("{name}: the {what} has version {found}, but this weir supports versions up to {known}")]
    Newer {
        /// The file.
        name: String,
        /// `archive` or `result schema`.
        what: &'static str,
        /// Version of the file.
        found: u32,
        /// Newest version that this program supports.
        known: u32,
        /// The weir version that wrote it.
        weir_version: String,
    },
    /// The file is truncated.
    #[error("{name}: the file is incomplete: it ends in line {line}")]
    Cut {
        /// The file.
        name: String,
        /// The last line.
        line: usize,
    },
    /// The file decompresses to far more than an archive of its size.
    #[error("{name}: the file decompresses to more than {} times its size", super::limits::RATIO_MAX)]
    TooLarge {
        /// The file.
        name: String,
    },
    /// The content is invalid.
    #[error("{name}: line {line} is damaged: {detail}")]
    Damaged {
        /// The file.
        name: String,
        /// The line.
        line: usize,
        /// What is wrong there.
        detail: String,
    },
}

impl ArchiveError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Unreadable { .. } => "use a readable file, or `-` for standard input".into(),
            Self::Foreign { .. } => {
                "use a file from `weir export RUN --format weir`; the other formats cannot be imported".into()
            }
            Self::Newer { weir_version, .. } => {
                format!("use weir {weir_version}, which wrote it, or a later version")
            }
            Self::TooLarge { .. } => "nothing was imported; export the run again on its original host".into(),
            Self::Cut { .. } | Self::Damaged { .. } => {
                "nothing was imported; copy the file again, or export the run again on its original host"
                    .into()
            }
        }
    }

    /// Whether the caller gave a wrong file, rather than the machine failing.
    pub fn is_wrong_use(&self) -> bool {
        match self {
            Self::Unreadable { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory)
            }
            _ => true,
        }
    }
}
