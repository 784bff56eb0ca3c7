//! Counts the values of JSON on its way to the parser, which fails where too many would be in memory together.
//!
//! - A value of two bytes can have 300 in memory, and a ZIP archive of a megabyte can have a gigabyte of such values.
//! - The count is exact as far as the text is JSON. The parser refuses the rest.

use std::io::{self, Read};

/// Of one conversation: those of about 150,000 messages, in 2 GiB at most.
pub const MAX_VALUES: usize = 8 << 20;

pub struct Counted<R> {
    text: R,
    /// Values that are in memory already.
    before: usize,
    /// `before`, and those read since. With `one_by_one`, those of the element alone.
    values: usize,
    /// The elements of an array that stands alone are in memory one by one.
    one_by_one: bool,
    is_array: bool,
    depth: usize,
    place: Place,
}

/// Where the next byte is.
#[derive(Clone, Copy)]
enum Place {
    Values,
    Text,
    /// In a text, behind a backslash.
    Escape,
}

impl<R> Counted<R> {
    pub fn new(text: R, before: usize, one_by_one: bool) -> Self {
        Self {
            text,
            before,
            values: before,
            one_by_one,
            is_array: false,
            depth: 0,
            place: Place::Values,
        }
    }

    /// The text that is left, and the count; above [`MAX_VALUES`], the text was not read further.
    pub fn into_parts(self) -> (R, usize) {
        (self.text, self.values)
    }

    fn count(&mut self, byte: u8) {
        match (self.place, byte) {
            (Place::Escape, _) => self.place = Place::Text,
            (Place::Text, b'\\') => self.place = Place::Escape,
            (Place::Text, b'"') => self.place = Place::Values,
            (Place::Values, b'"') => self.place = Place::Text,
            (Place::Values, b'[' | b'{') => {
                if self.depth == 0 {
                    self.is_array = byte == b'[';
                }
                self.depth += 1;
                self.values += 1;
            }
            (Place::Values, b']' | b'}') => self.depth = self.depth.saturating_sub(1),
            (Place::Values, b',') if self.one_by_one && self.is_array && self.depth == 1 => {
                self.values = self.before;
            }
            (Place::Values, b',') => self.values += 1,
            _ => {}
        }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.text.read(buffer)?;
        for &byte in &buffer[..read] {
            self.count(byte);
            if self.values > MAX_VALUES {
                return Err(io::Error::other("too many values"));
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str, one_by_one: bool) -> usize {
        let mut counted = Counted::new(text.as_bytes(), 0, one_by_one);
        io::copy(&mut counted, &mut io::sink()).unwrap();
        counted.into_parts().1
    }

    #[test]
    fn values_are_counted_and_text_is_not() {
        assert_eq!(counted(r#"{"a": [1, 2, {}], "b": "x, [{\", \\"}"#, false), 6);
        assert_eq!(counted("[1, 2]\n[3, 4]\n", false), 4);
    }

    #[test]
    fn the_elements_of_an_array_count_one_by_one() {
        assert_eq!(counted(r#"[{"a": [1, 2, 3]}, {"a": 1}, {"b": [1]}]"#, true), 2);
        assert_eq!(counted(r#"{"a": [{"b": 1}, {"c": 2}], "d": 3}"#, true), 6);
    }

    #[test]
    fn no_more_than_so_many_are_read() {
        let mut counted = Counted::new(io::repeat(b'['), 7, true);
        assert!(io::copy(&mut counted, &mut io::sink()).is_err());
        assert_eq!(counted.into_parts().1, MAX_VALUES + 1);
    }
}
