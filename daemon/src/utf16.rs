//! Places in a text, for a page: JavaScript counts in units of UTF-16.

/// How many units `text` has.
pub fn units(text: &str) -> usize {
    text.encode_utf16().count()
}
