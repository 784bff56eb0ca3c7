//! LoRA adapters: small matrices that are added to a model's weights while it computes.
//!
//! - Those of the model are in memory with it, and part of all that it computes.
//! - Those of turns are loaded when a turn needs them. The last [`MAX_LOADED`] stay loaded.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use hob_slots::FileDigest;
use llama_cpp_sys_2 as sys;

use crate::adapters::{AdapterFile, Adapters};
use crate::backend::LoadError;

/// Adapters of turns in memory, unless one turn has more.
const MAX_LOADED: usize = 8;

/// An adapter file and its factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// A GGUF made for the model's architecture.
    pub path: PathBuf,
    pub scale: f32,
}

type Pointer = NonNull<sys::llama_adapter_lora>;

/// Adapters that belong to one model in memory. llama.cpp frees them with the model.
#[derive(Default)]
pub(super) struct ModelAdapters(Vec<(Pointer, f32)>);

impl ModelAdapters {
    /// Loads the files for `model`.
    ///
    /// # Errors
    /// [`LoadError::Adapter`] for a file that does not fit the model, or that waits for a token to
    /// begin (aLoRA).
    pub fn load(model: NonNull<sys::llama_model>, files: &[Adapter]) -> Result<Self, LoadError> {
        let load = |it: &Adapter| Ok((load(model.as_ptr(), &it.path, "lora")?, it.scale));
        Ok(Self(files.iter().map(load).collect::<Result<_, _>>()?))
    }
}

/// Adapters of turns that are loaded beside one context.
#[derive(Default)]
pub(super) struct TurnAdapters {
    /// By content; the least recently used first.
    loaded: Vec<(FileDigest, Pointer)>,
}

impl TurnAdapters {
    /// Lets `context` compute with the adapters of its `model` and with `adapters`.
    ///
    /// # Errors
    /// [`LoadError::Adapter`]; the context computes as before.
    pub fn apply(
        &mut self,
        context: NonNull<sys::llama_context>,
        model: (NonNull<sys::llama_model>, &ModelAdapters),
        adapters: &Adapters,
    ) -> Result<(), LoadError> {
        let (model, of_model) = model;
        let mut all = of_model.0.clone();
        for file in adapters.files() {
            all.push((self.take(model, file)?, file.lora.scale));
        }
        let mut pointers: Vec<_> = all.iter().map(|(pointer, _)| pointer.as_ptr()).collect();
        let mut scales: Vec<f32> = all.iter().map(|&(_, scale)| scale).collect();
        // SAFETY: the context and the adapters of its model are alive; both arrays have the length that
        // is passed, and the call copies them. It returns 0 always.
        unsafe {
            sys::llama_set_adapters_lora(
                context.as_ptr(),
                pointers.as_mut_ptr(),
                pointers.len(),
                scales.as_mut_ptr(),
            );
        }
        // Those in use are the last.
        let surplus = self.loaded.len().saturating_sub(MAX_LOADED.max(adapters.files().len()));
        for (_, pointer) in self.loaded.drain(..surplus) {
            // SAFETY: it was loaded once, and the context does not use it any more.
            unsafe { sys::llama_adapter_lora_free(pointer.as_ptr()) };
        }
        Ok(())
    }

    /// The file's adapter, which becomes the most recently used one.
    fn take(
        &mut self,
        model: NonNull<sys::llama_model>,
        file: &AdapterFile,
    ) -> Result<Pointer, LoadError> {
        let content = file.lora.sha256;
        let known = self.loaded.iter().position(|&(loaded, _)| loaded == content);
        let entry = match known {
            Some(at) => self.loaded.remove(at),
            None => {
                let changed =
                    || LoadError::adapter(file, "the file changes at the moment: ask again");
                if file.has_changed() {
                    return Err(changed());
                }
                let pointer = load(model.as_ptr(), &file.path, "adapters")?;
                if file.has_changed() {
                    // SAFETY: it was just loaded, and nothing uses it.
                    unsafe { sys::llama_adapter_lora_free(pointer.as_ptr()) };
                    return Err(changed());
                }
                (content, pointer)
            }
        };
        self.loaded.push(entry);
        Ok(entry.1)
    }

    /// # Safety
    /// The context is gone, and the model is not.
    pub unsafe fn free(&mut self) {
        for (_, pointer) in self.loaded.drain(..) {
            // SAFETY: it was loaded once; with the caller's promise nothing uses it.
            unsafe { sys::llama_adapter_lora_free(pointer.as_ptr()) };
        }
    }
}

/// `setting`: that names the file.
fn load(
    model: *mut sys::llama_model,
    path: &Path,
    setting: &'static str,
) -> Result<Pointer, LoadError> {
    let refused = |reason: &str| {
        let (path, reason) = (path.display().to_string(), reason.to_owned());
        LoadError::Adapter { path, reason, setting }
    };
    let name = path.to_str().and_then(|path| CString::new(path).ok());
    let name = name.ok_or_else(|| refused("the path is not UTF-8 or contains a NUL byte"))?;
    // SAFETY: the model is loaded and the path ends with a NUL; C++ exceptions end inside.
    let pointer = unsafe { sys::llama_adapter_lora_init(model, name.as_ptr()) };
    let pointer = NonNull::new(pointer);
    let pointer =
        pointer.ok_or_else(|| refused("it is no LoRA adapter for this model, see the log"))?;
    // SAFETY: the adapter was just loaded.
    if unsafe { sys::llama_adapter_get_alora_n_invocation_tokens(pointer.as_ptr()) } > 0 {
        // SAFETY: nothing uses it.
        unsafe { sys::llama_adapter_lora_free(pointer.as_ptr()) };
        return Err(refused("an adapter that begins at a token (aLoRA) is not supported"));
    }
    Ok(pointer)
}
