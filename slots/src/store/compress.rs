//! Objects that have aged, stored smaller.
//!
//! The file is written anew under the same name: an object is what it holds, not how it is stored.

use super::Store;
use super::error::{StoreError, io_error};
use super::layout::ObjectName;
use crate::format::Object;
use crate::id::ModelHash;

/// What compressing an object did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compressed {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that its file is shorter now.
    pub saved_bytes: u64,
}

impl Store {
    /// Stores an object compressed, if that makes it smaller. One that is not there, is damaged or
    /// is compressed already stays as it is.
    pub fn compress_object(
        &self,
        model: ModelHash,
        name: ObjectName,
    ) -> Result<Compressed, StoreError> {
        let path = self.layout.object(model, name);
        let Ok(file) = self.read(&path) else { return Ok(Compressed::default()) };
        let read_bytes = file.len() as u64;
        // What is damaged is found, and told, by whoever needs it.
        let Ok(Some(smaller)) = Object::compressed(&file, Object::COMPRESSION_LEVEL) else {
            return Ok(Compressed { read_bytes, saved_bytes: 0 });
        };
        let _guard = self.objects.lock();
        let facts = self.files.look(&path);
        let Ok(facts) = facts else { return Ok(Compressed { read_bytes, saved_bytes: 0 }) };
        self.write(model, &path, &[&smaller])?;
        // It is no younger than it was: the collector goes by this.
        self.files.touch(&path, facts.modified).map_err(io_error("set the age of", &path))?;
        Ok(Compressed { read_bytes, saved_bytes: read_bytes - smaller.len() as u64 })
    }
}
