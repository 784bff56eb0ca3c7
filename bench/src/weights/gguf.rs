//! Writes a GGUF file (version 3, little-endian) up to its tensors, and reads enough of another one
//! to copy its values.
//!
//! | part | bytes |
//! |---|---|
//! | magic `GGUF`, version | 4 + 4 |
//! | number of tensors, number of values | 8 + 8 |
//! | each value: key, type, contents | text, 4, by type |
//! | each tensor: name, dimensions, widths, type, offset | text, 4, 8 each, 4, 8 |
//! | zeros up to a multiple of 32, then the tensors, each padded likewise | |
//!
//! A text is its length in 8 bytes and then its UTF-8. An array is a type, a length in 8 bytes and
//! its entries.

use std::collections::BTreeMap;
use std::io;

use super::tensor::{Storage, Tensor};

const MAGIC: &[u8; 4] = b"GGUF";
const VERSION: u32 = 3;
const ALIGNMENT: usize = 32;

const TYPE_U32: u32 = 4;
const TYPE_F32: u32 = 6;
const TYPE_TEXT: u32 = 8;
const TYPE_ARRAY: u32 = 9;

/// All bytes before the tensors, and the length of the whole file.
pub struct Header {
    bytes: Vec<u8>,
    tensor_bytes: usize,
}

impl Header {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn file_bytes(&self) -> u64 {
        (self.bytes.len() + self.tensor_bytes) as u64
    }
}

/// The padding to a multiple of 32.
pub fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT) - bytes
}

/// Gathers the values of a file; `finish` adds the table of its tensors.
#[derive(Default)]
pub struct HeaderBuilder {
    values: Vec<u8>,
    count: u64,
}

impl HeaderBuilder {
    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key, TYPE_TEXT);
        put_text(&mut self.values, value);
    }

    pub fn number(&mut self, key: &str, value: u32) {
        self.key(key, TYPE_U32);
        self.values.extend(value.to_le_bytes());
    }

    pub fn numbers(&mut self, key: &str, values: &[u32]) {
        self.key(key, TYPE_ARRAY);
        self.values.extend(TYPE_U32.to_le_bytes());
        self.values.extend((values.len() as u64).to_le_bytes());
        self.values.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    pub fn float(&mut self, key: &str, value: f32) {
        self.key(key, TYPE_F32);
        self.values.extend(value.to_le_bytes());
    }

    /// Copies a value of another file.
    pub fn raw(&mut self, key: &str, value: RawValue<'_>) {
        self.key(key, value.kind);
        self.values.extend(value.bytes);
    }

    /// Copies another file's array of texts, and appends more.
    pub fn longer_texts(
        &mut self,
        key: &str,
        array: RawValue<'_>,
        more: impl ExactSizeIterator<Item = String>,
    ) {
        self.longer_array(key, array, more.len());
        more.for_each(|text| put_text(&mut self.values, &text));
    }

    /// Copies another file's array of 32-bit numbers, and appends more.
    pub fn longer_numbers(
        &mut self,
        key: &str,
        array: RawValue<'_>,
        more: impl ExactSizeIterator<Item = i32>,
    ) {
        self.longer_array(key, array, more.len());
        self.values.extend(more.flat_map(i32::to_le_bytes));
    }

    /// Writes an array's head and its copied entries; its new entries follow.
    fn longer_array(&mut self, key: &str, array: RawValue<'_>, more: usize) {
        assert_eq!(array.kind, TYPE_ARRAY, "{key} is an array in every GGUF");
        self.key(key, TYPE_ARRAY);
        let (kind, rest) = array.bytes.split_at(4);
        let (length, entries) = rest.split_at(8);
        let length = u64::from_le_bytes(length.try_into().expect("it was split at 8"));
        self.values.extend(kind);
        self.values.extend((length + more as u64).to_le_bytes());
        self.values.extend(entries);
    }

    fn key(&mut self, key: &str, kind: u32) {
        put_text(&mut self.values, key);
        self.values.extend(kind.to_le_bytes());
        self.count += 1;
    }

    pub fn finish(self, tensors: &[Tensor]) -> Header {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((tensors.len() as u64).to_le_bytes());
        bytes.extend(self.count.to_le_bytes());
        bytes.extend(self.values);
        let mut offset = 0;
        for tensor in tensors {
            put_text(&mut bytes, &tensor.name);
            let widths = [Some(tensor.width), tensor.rows].into_iter().flatten();
            bytes.extend((widths.clone().count() as u32).to_le_bytes());
            widths.for_each(|width| bytes.extend((width as u64).to_le_bytes()));
            let storage: u32 = match tensor.storage {
                Storage::F32 => 0,
                Storage::Q8_0 => 8,
            };
            bytes.extend(storage.to_le_bytes());
            bytes.extend((offset as u64).to_le_bytes());
            offset += tensor.bytes().next_multiple_of(ALIGNMENT);
        }
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        Header { bytes, tensor_bytes: offset }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// The values of a GGUF, located but not decoded.
pub struct Metadata<'a>(BTreeMap<&'a [u8], RawValue<'a>>);

/// A value's type, and its bytes in the file.
#[derive(Clone, Copy)]
pub struct RawValue<'a> {
    kind: u32,
    bytes: &'a [u8],
}

impl<'a> Metadata<'a> {
    /// Locates the values of a GGUF that begins with these bytes.
    pub fn read(file: &'a [u8]) -> io::Result<Self> {
        let mut cursor = Cursor(file);
        if cursor.take(4)? != MAGIC || cursor.number()? != VERSION {
            return Err(malformed("this is no GGUF of version 3"));
        }
        let (_tensors, count) = (cursor.length()?, cursor.length()?);
        let mut values = BTreeMap::new();
        for _ in 0..count {
            let key = cursor.text()?;
            let kind = cursor.number()?;
            let before = cursor.0;
            cursor.skip_value(kind)?;
            let bytes = &before[..before.len() - cursor.0.len()];
            values.insert(key, RawValue { kind, bytes });
        }
        Ok(Self(values))
    }

    pub fn value(&self, key: &str) -> io::Result<RawValue<'a>> {
        let value = self.0.get(key.as_bytes()).copied();
        value.ok_or_else(|| malformed(&format!("the lender of the tokenizer has no {key}")))
    }

    /// The entries of an array of texts.
    pub fn texts(&self, key: &str) -> io::Result<Vec<&'a [u8]>> {
        let mut cursor = Cursor(self.value(key)?.bytes);
        if cursor.number()? != TYPE_TEXT {
            return Err(malformed(&format!("{key} is no array of texts")));
        }
        (0..cursor.length()?).map(|_| cursor.text()).collect()
    }

    pub fn array_length(&self, key: &str) -> io::Result<usize> {
        let mut cursor = Cursor(self.value(key)?.bytes);
        cursor.number()?;
        cursor.length()
    }
}

/// The unread rest of a file.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, bytes: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(bytes)
            .ok_or_else(|| malformed("a GGUF that ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> io::Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four were taken")))
    }

    fn length(&mut self) -> io::Result<usize> {
        let length = u64::from_le_bytes(self.take(8)?.try_into().expect("eight were taken"));
        usize::try_from(length).map_err(|_| malformed("a length beyond all memory"))
    }

    fn text(&mut self) -> io::Result<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    fn skip_value(&mut self, kind: u32) -> io::Result<()> {
        match kind {
            0 | 1 | 7 => self.take(1).map(drop),
            2 | 3 => self.take(2).map(drop),
            4..=6 => self.take(4).map(drop),
            10..=12 => self.take(8).map(drop),
            TYPE_TEXT => self.text().map(drop),
            TYPE_ARRAY => {
                let (kind, length) = (self.number()?, self.length()?);
                (0..length).try_for_each(|_| self.skip_value(kind))
            }
            other => Err(malformed(&format!("a value of the unknown type {other}"))),
        }
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
