//! A GGUF in memory: whole, or only its vocabulary.

use std::ffi::{CString, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::SystemTime;

use llama_cpp_sys_2 as sys;

use crate::backend::{LoadError, Progress};

/// A model file, and its identity when it was first loaded.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    name: CString,
    seen: (u64, Option<SystemTime>),
}

pub(super) struct Weights(NonNull<sys::llama_model>);

// SAFETY: llama.cpp does not change a model after it is loaded, and every call made here through
// the shared pointer takes it as const or only reads it; contexts are made one at a time because
// one engine thread makes them.
unsafe impl Send for Weights {}
// SAFETY: as above.
unsafe impl Sync for Weights {}

/// How much of a file is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    VocabularyAlone,
}

impl Source {
    pub fn new(path: &Path) -> Result<Self, LoadError> {
        let name = path.to_str().and_then(|path| CString::new(path).ok());
        let name =
            name.ok_or_else(|| refused(path, "the path is not UTF-8 or contains a NUL byte"))?;
        Ok(Self { path: path.to_owned(), name, seen: identity(path) })
    }

    /// Loads the file; calls `progress` with 0 to 1, and ends early when it breaks.
    pub fn load(&self, extent: Extent, progress: &mut Progress<'_>) -> Result<Weights, LoadError> {
        if identity(&self.path) != self.seen {
            // KV is saved under the fingerprint of the first weights.
            return Err(refused(
                &self.path,
                "the file has changed since it was loaded first: start again to use it",
            ));
        }
        let mut interrupted = false;
        let mut report_progress = |loaded: f32| {
            interrupted |= progress(loaded).is_break();
            !interrupted
        };
        let mut callback: &mut dyn FnMut(f32) -> bool = &mut report_progress;
        // SAFETY: the defaults are plain values; `name` and `callback` outlive the call, and the
        // callback is called only during it.
        let pointer = unsafe {
            let mut params = sys::llama_model_default_params();
            params.vocab_only = extent == Extent::VocabularyAlone;
            params.progress_callback = Some(report);
            params.progress_callback_user_data = (&raw mut callback).cast::<c_void>();
            sys::llama_model_load_from_file(self.name.as_ptr(), params)
        };
        NonNull::new(pointer).map(Weights).ok_or_else(|| {
            if interrupted {
                return LoadError::Interrupted { path: self.path.display().to_string() };
            }
            self.refused("its content was refused")
        })
    }

    pub fn refused(&self, reason: &str) -> LoadError {
        refused(&self.path, reason)
    }
}

impl Weights {
    pub fn as_ptr(&self) -> *mut sys::llama_model {
        self.0.as_ptr()
    }

    pub fn vocab(&self) -> *const sys::llama_vocab {
        // SAFETY: the model is loaded; its vocabulary lives as long as it does.
        unsafe { sys::llama_model_get_vocab(self.as_ptr()) }
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        // SAFETY: contexts share the weights, so no context is left; only this frees them.
        unsafe { sys::llama_model_free(self.as_ptr()) }
    }
}

/// Calls the `progress` of [`Source::load`]; returns whether to go on.
///
/// # Safety
/// `data` must point to a `&mut dyn FnMut(f32) -> bool` that is not used elsewhere during the call.
unsafe extern "C" fn report(progress: f32, data: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    let callback = unsafe { &mut *data.cast::<&mut dyn FnMut(f32) -> bool>() };
    callback(progress)
}

fn refused(path: &Path, reason: &str) -> LoadError {
    LoadError::Model { path: path.display().to_string(), reason: reason.to_owned() }
}

/// Length and modification time; an unreadable file is reported when it is loaded.
fn identity(path: &Path) -> (u64, Option<SystemTime>) {
    let facts = fs::metadata(path).ok();
    facts.map_or((0, None), |facts| (facts.len(), facts.modified().ok()))
}
