//! Small GGUF files, and changed copies of others.

use std::fs;
use std::path::Path;

/// A GGUF file of version 3, taken apart.
#[derive(Clone, Debug)]
pub struct Gguf {
    entries: Vec<Entry>,
    n_tensors: u64,
    tensors: Vec<u8>,
    data: Vec<u8>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    /// GGUF's number of the value's type.
    pub kind: u32,
    /// As they are in the file.
    pub bytes: Vec<u8>,
}

const ALIGNMENT: usize = 32;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;

impl Gguf {
    /// Without entries and tensors.
    pub fn empty() -> Self {
        Self { entries: Vec::new(), n_tensors: 0, tensors: Vec::new(), data: Vec::new() }
    }

    /// Adds a tensor of 32-bit floats, of this many columns and rows.
    ///
    /// # Panics
    /// When the values are not as many.
    #[must_use]
    pub fn tensor(mut self, name: &str, size: [usize; 2], values: &[f32]) -> Self {
        assert_eq!(values.len(), size[0] * size[1]);
        self.n_tensors += 1;
        self.tensors.extend(text(name));
        self.tensors.extend(2u32.to_le_bytes());
        self.tensors.extend(size.iter().flat_map(|&length| (length as u64).to_le_bytes()));
        self.tensors.extend(0u32.to_le_bytes()); // Their type.
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        self.tensors.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self
    }

    /// # Panics
    /// When it is no valid file.
    pub fn open(path: &Path) -> Self {
        let file = fs::read(path).expect("the file can be read");
        let mut at = Reader { bytes: &file, position: 8 };
        let (n_tensors, n_entries) = (at.u64(), at.u64());
        let entries = (0..n_entries).map(|_| {
            let (key, kind) = (at.text(), at.u32());
            let start = at.position;
            at.skip(kind);
            Entry { key, kind, bytes: file[start..at.position].to_vec() }
        });
        let entries = entries.collect();
        let start = at.position;
        for _ in 0..n_tensors {
            at.text();
            let dimensions = at.u32() as usize;
            at.position += dimensions * 8 + 4 + 8;
        }
        let data = file[at.position.next_multiple_of(ALIGNMENT)..].to_vec();
        Self { entries, n_tensors, tensors: file[start..at.position].to_vec(), data }
    }

    pub fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    /// Names, sizes, types and places of the tensors, as they are in the file.
    pub fn tensors_mut(&mut self) -> &mut [u8] {
        &mut self.tensors
    }

    /// Sets a whole number of 32 bits.
    #[must_use]
    pub fn number(self, key: &str, value: u32) -> Self {
        self.entry(key, 4, value.to_le_bytes().to_vec())
    }

    #[must_use]
    pub fn float(self, key: &str, value: f32) -> Self {
        self.entry(key, 6, value.to_le_bytes().to_vec())
    }

    #[must_use]
    pub fn text(self, key: &str, value: &str) -> Self {
        self.entry(key, TEXT, text(value))
    }

    #[must_use]
    pub fn texts(self, key: &str, values: &[&str]) -> Self {
        let mut bytes = TEXT.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        bytes.extend(values.iter().flat_map(|value| text(value)));
        self.entry(key, ARRAY, bytes)
    }

    /// Writes a control token in the place of another one of the vocabulary.
    ///
    /// # Panics
    /// When the file has no such token.
    #[must_use]
    pub fn control_token(mut self, token: usize, written: &str) -> Self {
        const CONTROL: u32 = 3;
        // Behind the type of the entries and their number.
        const FIRST: usize = 12;
        let texts = self.bytes_of("tokenizer.ggml.tokens");
        let mut at = Reader { bytes: texts, position: FIRST };
        (0..token).for_each(|_| drop(at.text()));
        let start = at.position;
        at.text();
        let end = at.position;
        texts.splice(start..end, text(written));
        let place = FIRST + token * 4;
        let kinds = self.bytes_of("tokenizer.ggml.token_type");
        kinds[place..place + 4].copy_from_slice(&CONTROL.to_le_bytes());
        self
    }

    fn bytes_of(&mut self, key: &str) -> &mut Vec<u8> {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key);
        &mut entry.expect("the file has this entry").bytes
    }

    fn entry(mut self, key: &str, kind: u32, bytes: Vec<u8>) -> Self {
        self.entries.retain(|entry| entry.key != key);
        self.entries.push(Entry { key: key.to_owned(), kind, bytes });
        self
    }

    /// # Panics
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) {
        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        file.extend(self.n_tensors.to_le_bytes());
        file.extend((self.entries.len() as u64).to_le_bytes());
        for Entry { key, kind, bytes } in &self.entries {
            file.extend(text(key));
            file.extend(kind.to_le_bytes());
            file.extend(bytes);
        }
        file.extend(&self.tensors);
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file.extend(&self.data);
        fs::write(path, file).expect("the directory is writable");
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let start = self.position;
        self.position += N;
        self.bytes[start..self.position].try_into().expect("that many bytes")
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn text(&mut self) -> String {
        let (length, start) = (self.u64() as usize, self.position);
        self.position += length;
        String::from_utf8_lossy(&self.bytes[start..self.position]).into_owned()
    }

    fn skip(&mut self, kind: u32) {
        match kind {
            0 | 1 | 7 => self.position += 1,
            2 | 3 => self.position += 2,
            4..=6 => self.position += 4,
            10..=12 => self.position += 8,
            TEXT => drop(self.text()),
            ARRAY => {
                let (kind, length) = (self.u32(), self.u64());
                (0..length).for_each(|_| self.skip(kind));
            }
            other => panic!("GGUF has no type {other}"),
        }
    }
}
