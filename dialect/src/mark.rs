//! Marks of which the text so far has a part only.

/// The length of the longest suffix of `text` that is a proper prefix of `mark`.
pub(crate) fn partial_mark(text: &str, mark: &str) -> usize {
    let longest = mark.len().saturating_sub(1).min(text.len());
    let ends = |len: &usize| text.as_bytes().ends_with(&mark.as_bytes()[..*len]);
    (1..=longest).rev().find(ends).unwrap_or(0)
}

/// Whether `text` is the beginning of one of the marks, and not all of it.
pub(crate) fn awaits_any<'a>(text: &str, marks: impl IntoIterator<Item = &'a str>) -> bool {
    marks.into_iter().any(|mark| mark.len() > text.len() && mark.starts_with(text))
}
