//! Compresses aged objects.
//!
//! The compressed file replaces the raw one under the same name: a name depends on the content, not
//! on the encoding.

use super::Store;
use super::error::{StoreError, io_error};
use super::layout::ObjectName;
use crate::format::Object;
use crate::id::ModelHash;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compressed {
    pub read_bytes: u64,
    pub saved_bytes: u64,
}

impl Store {
    /// Compresses an object if that makes its file smaller. A missing, damaged or compressed one
    /// stays as it is.
    pub fn compress_object(
        &self,
        model: ModelHash,
        name: ObjectName,
    ) -> Result<Compressed, StoreError> {
        let path = self.layout.object(model, name);
        let Ok(file) = self.read(&path) else { return Ok(Compressed::default()) };
        let read_bytes = file.len() as u64;
        // A damaged object is reported by its next reader.
        let Ok(Some(smaller)) = Object::compressed(&file, Object::COMPRESSION_LEVEL) else {
            return Ok(Compressed { read_bytes, saved_bytes: 0 });
        };
        let _guard = self.objects.lock();
        let facts = self.files.stat(&path);
        let Ok(facts) = facts else { return Ok(Compressed { read_bytes, saved_bytes: 0 }) };
        self.write(model, &path, &[&smaller])?;
        // Keeps the file's time: the collector goes by it.
        self.files.touch(&path, facts.modified).map_err(io_error("set the age of", &path))?;
        Ok(Compressed { read_bytes, saved_bytes: read_bytes - smaller.len() as u64 })
    }
}
