//! LoRA adapters: small matrices that are added to a model's weights while it computes.

use std::ffi::CString;
use std::path::PathBuf;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use crate::backend::LoadError;

/// An adapter file and its factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// A GGUF made for the model's architecture.
    pub path: PathBuf,
    pub scale: f32,
}

/// Adapters that belong to one model in memory. llama.cpp frees them with the model.
#[derive(Default)]
pub(super) struct Adapters {
    pointers: Vec<*mut sys::llama_adapter_lora>,
    scales: Vec<f32>,
}

impl Adapters {
    /// Loads the files for `model`.
    ///
    /// # Errors
    /// [`LoadError::Adapter`] for a file that does not fit the model, or that waits for a token to
    /// begin (aLoRA).
    pub fn load(model: NonNull<sys::llama_model>, files: &[Adapter]) -> Result<Self, LoadError> {
        let mut adapters = Self::default();
        for Adapter { path, scale } in files {
            let refused = |reason: &str| LoadError::Adapter {
                path: path.display().to_string(),
                reason: reason.to_owned(),
            };
            let name = path.to_str().and_then(|path| CString::new(path).ok());
            let name =
                name.ok_or_else(|| refused("the path is not UTF-8 or contains a NUL byte"))?;
            // SAFETY: the model is loaded and the path ends with a NUL; C++ exceptions end inside.
            let pointer = unsafe { sys::llama_adapter_lora_init(model.as_ptr(), name.as_ptr()) };
            if pointer.is_null() {
                return Err(refused("it is no LoRA adapter for this model, see the log"));
            }
            // SAFETY: the adapter was just loaded.
            if unsafe { sys::llama_adapter_get_alora_n_invocation_tokens(pointer) } > 0 {
                return Err(refused("an adapter that begins at a token (aLoRA) is not supported"));
            }
            adapters.pointers.push(pointer);
            adapters.scales.push(*scale);
        }
        Ok(adapters)
    }

    /// Lets `context`, of the same model, compute with them.
    pub fn apply(&self, context: NonNull<sys::llama_context>) -> bool {
        let (mut pointers, mut scales) = (self.pointers.clone(), self.scales.clone());
        // SAFETY: the context and the adapters of its model are alive; both arrays have the length that
        // is passed, and the call copies them.
        let failed = unsafe {
            sys::llama_set_adapters_lora(
                context.as_ptr(),
                pointers.as_mut_ptr(),
                pointers.len(),
                scales.as_mut_ptr(),
            )
        };
        failed == 0
    }

    pub fn is_empty(&self) -> bool {
        self.pointers.is_empty()
    }
}
