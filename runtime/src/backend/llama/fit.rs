//! llama.cpp's choice of the layers that devices have room for. It is in a library of its own, which
//! only builds for devices have.

use std::ffi::CStr;

use llama_cpp_sys_2 as sys;

use super::placement::{Placed, Placement};
use crate::backend::ContextShape;

/// Puts as many layers on the devices of `placed` as fit beside the KV of `shape`. Loads the file's
/// metadata a few times, and no weights. `mtp`: the MTP heads are loaded too.
#[cfg(any(feature = "fit", target_os = "macos"))]
pub(super) fn fit(
    placement: &Placement,
    mut placed: Placed,
    path: &CStr,
    mtp: bool,
    shape: ContextShape,
    cache_types: [sys::ggml_type; 2],
) -> Placed {
    let params = super::params::context_params(shape, cache_types, placement.kv_offload);
    let Some(mut context) = params else {
        return Placed::nowhere(); // The context itself is refused later, by its size.
    };
    let began = std::time::Instant::now();
    let devices = super::placement::max_devices();
    let mut margins = vec![placement.margin_bytes; devices];
    placed.tensor_split = vec![0.0; devices];
    // SAFETY: the parameters are plain values, whose pointers are null or point into `placed`. Every
    // array has the length that the call asks for: an entry for each device, and one more than the
    // overrides for the null that ends them. The path ends with a NUL. Loads run one at a time,
    // and only they write the logger's global state, which the call replaces and restores.
    let (status, layers) = unsafe {
        let no_override = sys::llama_model_tensor_buft_override {
            pattern: std::ptr::null(),
            buft: std::ptr::null_mut(),
        };
        placed.overrides = vec![no_override; sys::llama_max_tensor_buft_overrides() + 1];
        let mut model = sys::llama_model_default_params();
        model.devices = placed.devices.as_mut_ptr();
        model.load_mtp = mtp;
        let status = sys::llama_rs_fit_params(
            path.as_ptr(),
            &raw mut model,
            &raw mut context,
            placed.tensor_split.as_mut_ptr(),
            placed.overrides.as_mut_ptr(),
            margins.as_mut_ptr(),
            0, // The size of the context is set.
            std::ptr::null(),
            sys::GGML_LOG_LEVEL_ERROR,
        );
        (status, model.n_gpu_layers)
    };
    let millis = began.elapsed().as_millis();
    if status != 0 {
        tracing::warn!(devices = ?placed.names, millis, "the model does not fit: the processor computes it");
        return Placed::nowhere();
    }
    placed.layers = layers;
    tracing::info!(devices = ?placed.names, layers, millis, "layers fitted to devices; -1 is all");
    placed
}

/// Builds without devices do not call it.
#[cfg(not(any(feature = "fit", target_os = "macos")))]
pub(super) fn fit(
    _: &Placement,
    placed: Placed,
    _: &CStr,
    _: bool,
    _: ContextShape,
    _: [sys::ggml_type; 2],
) -> Placed {
    placed
}
