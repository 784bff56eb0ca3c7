//! What a file is refused for.

use crate::error::{ApiError, ErrorKind};

/// About 1,000 pages.
pub const MAX_TEXT_BYTES: usize = 4 << 20;

pub fn unreadable(message: String) -> ApiError {
    ApiError::new(ErrorKind::Invalid, message).code("document_unreadable")
}

pub fn too_large() -> ApiError {
    let message = format!(
        "its text has more than {} MiB: divide it into several documents",
        MAX_TEXT_BYTES >> 20
    );
    ApiError::new(ErrorKind::TooLarge, message).code("document_too_large")
}
