//! The metadata and the tensors of a GGUF, read without loading it.
//!
//! hob-models reads headers too, and this crate may not depend on it: the engine also loads files for callers that know a
//! path alone, and llama.cpp's own reader finds what llama.cpp's loader finds.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

pub(super) struct Header(NonNull<sys::gguf_context>);

/// A tensor in a file.
pub(super) struct Tensor {
    pub kind: sys::ggml_type,
    /// Bytes of the file before it.
    pub start: u64,
    pub bytes: usize,
}

impl Header {
    /// `None` where llama.cpp cannot read it.
    pub fn open(path: &Path) -> Option<Self> {
        let name = CString::new(path.to_str()?).ok()?;
        let params = sys::gguf_init_params { no_alloc: true, ctx: std::ptr::null_mut() };
        // SAFETY: the name ends with a NUL; without a context, no tensor is read.
        NonNull::new(unsafe { sys::gguf_init_from_file(name.as_ptr(), params) }).map(Self)
    }

    pub fn text(&self, key: &str) -> Option<String> {
        let at = self.entry(key, sys::GGUF_TYPE_STRING)?;
        // SAFETY: the entry is there and is a text, which ends with a NUL and lives as long as the header.
        let text = unsafe { CStr::from_ptr(sys::gguf_get_val_str(self.0.as_ptr(), at)) };
        text.to_str().ok().map(str::to_owned)
    }

    pub fn number(&self, key: &str) -> Option<u32> {
        let at = self.entry(key, sys::GGUF_TYPE_UINT32)?;
        // SAFETY: the entry is there and has this type.
        Some(unsafe { sys::gguf_get_val_u32(self.0.as_ptr(), at) })
    }

    /// Whether there is such an entry, of any type.
    pub fn has(&self, key: &str) -> bool {
        let Ok(key) = CString::new(key) else { return false };
        // SAFETY: the header is open, and the key ends with a NUL.
        unsafe { sys::gguf_find_key(self.0.as_ptr(), key.as_ptr()) >= 0 }
    }

    pub fn has_tensor(&self, name: &str) -> bool {
        self.tensor(name).is_some()
    }

    pub fn tensor(&self, name: &str) -> Option<Tensor> {
        let name = CString::new(name).ok()?;
        let file = self.0.as_ptr();
        // SAFETY: the header is open, and the name ends with a NUL; a place that was found is valid.
        unsafe {
            let at = sys::gguf_find_tensor(file, name.as_ptr());
            (at >= 0).then(|| Tensor {
                kind: sys::gguf_get_tensor_type(file, at),
                start: (sys::gguf_get_data_offset(file) + sys::gguf_get_tensor_offset(file, at))
                    as u64,
                bytes: sys::gguf_get_tensor_size(file, at),
            })
        }
    }

    /// The place of an entry of this type.
    fn entry(&self, key: &str, kind: sys::gguf_type) -> Option<i64> {
        let key = CString::new(key).ok()?;
        // SAFETY: the header is open, and the key ends with a NUL; a place that was found is valid.
        unsafe {
            let at = sys::gguf_find_key(self.0.as_ptr(), key.as_ptr());
            (at >= 0 && sys::gguf_get_kv_type(self.0.as_ptr(), at) == kind).then_some(at)
        }
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        // SAFETY: it was opened once, and only this frees it.
        unsafe { sys::gguf_free(self.0.as_ptr()) }
    }
}
