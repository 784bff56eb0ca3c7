//! Offsets in a text for the page: JavaScript counts in UTF-16 units.

pub fn units(text: &str) -> usize {
    text.encode_utf16().count()
}
