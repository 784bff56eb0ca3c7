//! Small GGUF files for tests.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use crate::gguf::{self, Header};

/// A file of the repository's `assets`.
pub fn asset(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets").join(name)
}

/// Builds a GGUF file in memory.
pub struct Gguf {
    entries: Vec<u8>,
    n_entries: u64,
    tensors: Vec<(String, u64)>,
}

impl Gguf {
    pub fn new(architecture: &str) -> Self {
        let gguf = Self { entries: Vec::new(), n_entries: 0, tensors: Vec::new() };
        gguf.text("general.architecture", architecture)
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.entry(key, 8, &text(value))
    }

    pub fn number(self, key: &str, value: u32) -> Self {
        self.entry(key, 4, &value.to_le_bytes())
    }

    pub fn numbers(self, key: &str, values: &[u32]) -> Self {
        let mut array = 4u32.to_le_bytes().to_vec();
        array.extend((values.len() as u64).to_le_bytes());
        array.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.entry(key, 9, &array)
    }

    pub fn float(self, key: &str, value: f32) -> Self {
        self.entry(key, 6, &value.to_le_bytes())
    }

    /// A vector of f32.
    pub fn tensor(mut self, name: &str, elements: u64) -> Self {
        self.tensors.push((name.to_owned(), elements));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend(self.n_entries.to_le_bytes());
        bytes.extend(&self.entries);
        let mut offset = 0u64;
        for (name, elements) in &self.tensors {
            bytes.extend(text(name));
            bytes.extend(1u32.to_le_bytes());
            bytes.extend(elements.to_le_bytes());
            bytes.extend(0u32.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            offset += (elements * 4).next_multiple_of(32);
        }
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.resize(bytes.len() + offset as usize, 0);
        bytes
    }

    pub fn header(&self) -> Header {
        let bytes = self.bytes();
        gguf::read(Cursor::new(&bytes), bytes.len() as u64).unwrap()
    }

    pub fn write(&self, path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.bytes()).unwrap();
    }

    /// `kind`: the number of the type of `value`.
    pub fn entry(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.entries.extend(text(key));
        self.entries.extend(kind.to_le_bytes());
        self.entries.extend(value);
        self.n_entries += 1;
        self
    }
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}
