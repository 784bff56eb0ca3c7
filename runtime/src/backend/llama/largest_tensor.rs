//! The largest tensor with which devices compute.
//!
//! - Devices of Vulkan have such a limit. llama.cpp ends the process when a tensor of the cache exceeds it, also in its
//!   own fit.
//! - A device says so once llama.cpp has initialised it. Only a load does that: there a driver's error is a failed load,
//!   and elsewhere it would end the process.

use std::path::Path;

use llama_cpp_2::LlamaBackendDevice;
use llama_cpp_sys_2 as sys;

use super::placement::{GpuLayers, Placed, Placement, usable};
use super::start;
use super::weights::Source;

/// llama.cpp's name of the backend whose devices have a limit.
const VULKAN: &str = "Vulkan";

/// More than a machine has.
const MAX_BYTES: u64 = 1 << 50;

/// Bytes of the largest tensor with which all devices compute that get KV by `placement`; `None`: of any. Where a device
/// may have a limit, it loads the file at `path` without the bytes of its weights, which takes a moment.
pub fn largest_tensor(path: &Path, placement: &Placement) -> Option<u64> {
    if placement.layers == GpuLayers::Count(0) || !placement.kv_offload || start().is_err() {
        return None;
    }
    let known = usable();
    let wanted = placement.wanted(&known).ok()?; // The load of the weights says what is not there.
    let limited: Vec<&LlamaBackendDevice> =
        wanted.into_iter().filter(|device| device.backend == VULKAN).collect();
    if limited.is_empty() {
        return None;
    }
    let mut placed = Placed::on(&limited);
    Source::new(path, &[]).ok()?.load_metadata(&mut placed).ok()?;
    let devices = placed.devices.iter().filter(|device| !device.is_null());
    let largest_bytes = devices.filter_map(|&device| largest_of(device)).min();
    tracing::info!(devices = ?placed.names, largest_bytes, "largest tensor");
    largest_bytes
}

/// Of an initialised device.
fn largest_of(device: sys::ggml_backend_dev_t) -> Option<u64> {
    greatest(|bytes| {
        let bytes = i64::try_from(bytes).expect("it is at most MAX_BYTES");
        // SAFETY: the device is one of llama.cpp's list, which does not shrink, and reads the tensor's type and size
        // alone. The tensor lives in the context, which has room for one without data and is freed behind its last use.
        unsafe {
            let context = sys::ggml_init(sys::ggml_init_params {
                mem_size: sys::ggml_tensor_overhead(),
                mem_buffer: std::ptr::null_mut(),
                no_alloc: true,
            });
            let tensor = sys::ggml_new_tensor_1d(context, sys::GGML_TYPE_I8, bytes);
            let computes = sys::ggml_backend_dev_supports_op(device, tensor);
            sys::ggml_free(context);
            computes
        }
    })
}

/// The greatest number below [`MAX_BYTES`] up to which all are `taken`; `None`: there is no such limit.
fn greatest(taken: impl Fn(u64) -> bool) -> Option<u64> {
    if taken(MAX_BYTES) {
        return None;
    }
    let (mut least, mut beyond) = (0, MAX_BYTES);
    while beyond - least > 1 {
        let middle = least + (beyond - least) / 2;
        if taken(middle) {
            least = middle;
        } else {
            beyond = middle;
        }
    }
    Some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_found_to_the_byte() {
        for limit in [0, 1, 128 << 20, (4 << 30) - 1, MAX_BYTES - 1] {
            assert_eq!(greatest(|bytes| bytes <= limit), Some(limit));
        }
        assert_eq!(greatest(|_| true), None);
    }

    #[test]
    fn the_processor_computes_with_tensors_of_any_size() {
        start().unwrap();
        // SAFETY: reads the list of devices.
        let processor = unsafe { sys::ggml_backend_dev_by_type(sys::GGML_BACKEND_DEVICE_TYPE_CPU) };
        assert_eq!(largest_of(processor), None);
    }

    #[test]
    fn a_file_loads_without_the_bytes_of_its_weights() {
        start().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/hob-tiny-f16.gguf");
        let source = Source::new(Path::new(path), &[]).unwrap();
        assert_eq!(source.load_metadata(&mut Placed::nowhere()), Ok(()));
    }

    #[test]
    fn kv_on_the_processor_has_no_limit() {
        let path = Path::new("no.gguf"); // It is not read.
        let layers = GpuLayers::Count(0);
        let nowhere = Placement { layers, ..Placement::default() };
        let here = Placement { kv_offload: false, ..Placement::default() };
        assert_eq!([nowhere, here].map(|it| largest_tensor(path, &it)), [None; 2]);
    }
}
