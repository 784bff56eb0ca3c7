//! A header as data.

use std::collections::BTreeMap;

use super::ggml::GgmlType;
use super::value::Value;

/// A GGUF file's header.
#[derive(Clone, Debug)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    pub metadata: BTreeMap<String, Value>,
    /// In the file's order.
    pub tensors: Vec<Tensor>,
    pub file_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Such as `blk.0.attn_k.weight`.
    pub name: String,
    /// Fastest first.
    pub dimensions: Vec<u64>,
    pub kind: GgmlType,
    /// From the start of the file.
    pub offset: u64,
    pub bytes: u64,
}

impl Header {
    /// The entry `key` as text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).and_then(Value::as_text)
    }

    /// The entry `key` as a whole number that is not negative.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.metadata.get(key).and_then(Value::as_number)
    }

    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).fold(0, u64::saturating_add)
    }
}
