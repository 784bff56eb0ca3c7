//! Which layers of a model are computed on which device.
//!
//! - On a machine or in a build without such a device, llama.cpp's parameters stay as they are, and
//!   nothing is measured.
//! - [`GpuLayers::Auto`] is llama.cpp's own fit: as many layers as the free memory of the devices
//!   holds beside the KV of the context. What does not fit at all is computed on the processor.

use std::ptr::NonNull;

use llama_cpp_2::{LlamaBackendDevice, LlamaBackendDeviceType, list_llama_ggml_backend_devices};
use llama_cpp_sys_2 as sys;
use tracing::warn;

use super::start;
use crate::backend::{ContextShape, Device, LoadError, Offload};

/// How many layers are computed on devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuLayers {
    /// As many layers as fit.
    Auto,
    /// The last ones of the model; 0 leaves all devices unused.
    Count(u32),
}

/// The settings about devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub layers: GpuLayers,
    /// The devices to use, by name; empty lets llama.cpp choose.
    pub devices: Vec<String>,
    /// The part of the layers that each device gets, in proportion; empty divides by free memory.
    pub tensor_split: Vec<u32>,
    /// Whether the KV of a layer is where the layer is. Otherwise all KV is in host memory.
    pub kv_offload: bool,
    /// The context that [`GpuLayers::Auto`] leaves room for. Without one, all layers are put on
    /// devices.
    pub context: Option<ContextShape>,
    /// Bytes that [`GpuLayers::Auto`] leaves free on each device, for compute buffers that grow and for other
    /// programs. llama.cpp's default is 1 GiB.
    pub margin_bytes: usize,
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            layers: GpuLayers::Auto,
            devices: Vec::new(),
            tensor_split: Vec::new(),
            kv_offload: true,
            context: None,
            margin_bytes: 1 << 30,
        }
    }
}

/// The devices, layers and shares that [`Placed::apply`] writes into llama.cpp's parameters, and the
/// arrays that these point to.
#[derive(Default)]
pub(super) struct Placed {
    /// Ends with a null; empty leaves llama.cpp's choice.
    pub devices: Vec<sys::ggml_backend_dev_t>,
    /// The names of the devices that get layers.
    pub names: Vec<String>,
    /// As in llama.cpp's parameters: negative stands for all.
    pub layers: i32,
    /// An entry for each device, or empty.
    pub tensor_split: Vec<f32>,
    /// Ends with a null pattern; empty overrides nothing.
    pub overrides: Vec<sys::llama_model_tensor_buft_override>,
}

/// llama.cpp's name of the backend whose devices share the machine's memory, but call themselves
/// graphics cards.
const METAL: &str = "MTL";

/// All layers, in llama.cpp's parameters.
const ALL: i32 = -1;

impl Placement {
    /// Finds the devices. With [`GpuLayers::Auto`] they get all layers; `fit` looks how many they hold.
    ///
    /// # Errors
    /// [`LoadError::Device`] for a device that is not there.
    pub(super) fn place(&self) -> Result<Placed, LoadError> {
        let known = usable();
        if self.layers == GpuLayers::Count(0) {
            return Ok(if known.is_empty() { Placed::default() } else { Placed::nowhere() });
        }
        let wanted = self.wanted(&known)?;
        if wanted.is_empty() {
            if !device_backends().is_empty() && self.layers == GpuLayers::Auto {
                warn!(
                    "no device that this build can use is here, so the processor computes all: see the \
                     device's driver, and `hob doctor`"
                );
            }
            return Ok(Placed::default());
        }
        let mut placed = Placed::on(&wanted);
        if !self.tensor_split.is_empty() {
            placed.tensor_split = vec![0.0; max_devices()];
            let parts = self.tensor_split.iter().map(|&part| part as f32);
            placed.tensor_split.iter_mut().zip(parts).for_each(|(slot, part)| *slot = part);
        }
        if let Some(mismatch) = mismatch(&self.tensor_split, &placed.names) {
            warn!("{mismatch}");
        }
        if let GpuLayers::Count(count) = self.layers {
            placed.layers = i32::try_from(count).unwrap_or(i32::MAX);
        }
        Ok(placed)
    }

    /// The devices to use: those of the setting, or llama.cpp's choice, which is all graphics cards,
    /// and graphics units of processors where there is no card.
    pub(super) fn wanted<'d>(
        &self,
        known: &'d [LlamaBackendDevice],
    ) -> Result<Vec<&'d LlamaBackendDevice>, LoadError> {
        if self.devices.is_empty() {
            let is_card =
                |device: &&LlamaBackendDevice| device.device_type == LlamaBackendDeviceType::Gpu;
            let cards: Vec<_> = known.iter().filter(is_card).collect();
            return Ok(if cards.is_empty() { known.iter().take(1).collect() } else { cards });
        }
        let find = |name: &String| {
            let found = known.iter().find(|device| device.name.eq_ignore_ascii_case(name));
            found.ok_or_else(|| LoadError::Device {
                name: name.clone(),
                known: known.iter().map(|device| device.name.clone()).collect(),
            })
        };
        self.devices.iter().map(find).collect()
    }
}

impl Placed {
    /// All layers.
    pub fn on(devices: &[&LlamaBackendDevice]) -> Self {
        let names = devices.iter().map(|device| device.name.clone()).collect();
        Self { devices: handles(devices), names, layers: ALL, ..Self::default() }
    }

    /// Uses no device.
    pub fn nowhere() -> Self {
        Self { devices: vec![std::ptr::null_mut()], ..Self::default() }
    }

    /// Whether devices get layers.
    pub fn is_on_devices(&self) -> bool {
        !self.names.is_empty() && self.layers != 0
    }

    /// The layers of the loaded `model` on devices, and whether its KV is there.
    pub fn offload(&self, model: NonNull<sys::llama_model>, kv: bool) -> Offload {
        // SAFETY: the model is loaded; both calls read a number of it.
        let layers = unsafe {
            sys::llama_model_n_layer(model.as_ptr())
                + sys::llama_model_n_layer_nextn(model.as_ptr())
        };
        let all_layers = usize::try_from(layers).unwrap_or(0) + 1; // The output.
        let layers = usize::try_from(self.layers).map_or(all_layers, |some| some.min(all_layers));
        let split = divided(layers, self.names.len(), &self.tensor_split);
        Offload { layers, all_layers, devices: self.names.clone(), split, kv }
    }

    /// Tells llama.cpp. `self` must outlive the load.
    pub fn apply(&mut self, params: &mut sys::llama_model_params) {
        if self.devices.is_empty() {
            return;
        }
        params.devices = self.devices.as_mut_ptr();
        params.n_gpu_layers = self.layers;
        if self.tensor_split.iter().any(|&part| part > 0.0) {
            params.tensor_split = self.tensor_split.as_ptr();
        }
        if self.overrides.first().is_some_and(|first| !first.pattern.is_null()) {
            params.tensor_buft_overrides = self.overrides.as_ptr();
        }
    }
}

/// Says that `parts` are not one for each of `devices`. Without parts, layers are divided by free memory.
fn mismatch(parts: &[u32], devices: &[String]) -> Option<String> {
    let count = parts.len();
    if count == 0 || count == devices.len() {
        return None;
    }
    Some(match devices.get(count..) {
        Some(without) => {
            let without = without.join(" and ");
            format!("tensor_split has no part for {without}: no layer goes there")
        }
        None => {
            let devices = devices.join(" and ");
            format!("tensor_split has {count} parts for {devices}: the last ones have no effect")
        }
    })
}

/// How many of `layers` llama.cpp puts on each of `devices` by the parts of `tensor_split`, with the arithmetic of its
/// `load_tensors`: a layer is on the first device whose parts, summed up with those before it, exceed the layer's own
/// part of all. Empty for several devices without parts: llama.cpp divides by the free memory that it reads itself.
fn divided(layers: usize, devices: usize, tensor_split: &[f32]) -> Vec<usize> {
    if devices == 1 {
        return vec![layers];
    }
    let parts = &tensor_split[..devices.min(tensor_split.len())];
    let sum: f32 = parts.iter().sum();
    if sum <= 0.0 {
        return Vec::new();
    }
    let mut before: f32 = 0.0;
    let ends: Vec<f32> = parts
        .iter()
        .map(|part| {
            before += part;
            before / sum
        })
        .collect();
    let mut split = vec![0; ends.len()];
    for layer in 0..layers {
        let at = layer as f32 / layers as f32;
        let device = ends.partition_point(|end| *end <= at);
        split[device.min(ends.len() - 1)] += 1;
    }
    split
}

/// See [`crate::backend::devices`].
pub fn devices() -> Vec<Device> {
    if start().is_err() {
        return Vec::new(); // A load says why.
    }
    let device = |device: LlamaBackendDevice| Device {
        shares_memory: device.device_type == LlamaBackendDeviceType::IntegratedGpu
            || device.backend == METAL,
        name: device.name,
        description: device.description,
        free_bytes: device.memory_free as u64,
        total_bytes: device.memory_total as u64,
    };
    usable().into_iter().map(device).collect()
}

/// llama.cpp's backends for devices in this build. On macOS it has Metal's, whatever the features are.
pub(super) fn device_backends() -> Vec<&'static str> {
    let all = [
        ("cuda", cfg!(feature = "cuda")),
        ("metal", cfg!(any(feature = "metal", target_os = "macos"))),
        ("rocm", cfg!(feature = "rocm")),
        ("vulkan", cfg!(feature = "vulkan")),
    ];
    all.into_iter().filter(|(_, is_in)| *is_in).map(|(name, _)| name).collect()
}

/// The devices that can hold layers.
pub(super) fn usable() -> Vec<LlamaBackendDevice> {
    let is_usable = |device: &LlamaBackendDevice| {
        use LlamaBackendDeviceType::{Gpu, IntegratedGpu};
        matches!(device.device_type, Gpu | IntegratedGpu)
    };
    list_llama_ggml_backend_devices().into_iter().filter(is_usable).collect()
}

/// A list of devices as llama.cpp reads it.
fn handles(devices: &[&LlamaBackendDevice]) -> Vec<sys::ggml_backend_dev_t> {
    // SAFETY: the indexes come from llama.cpp's own list, which does not shrink.
    let handle = |device: &&LlamaBackendDevice| unsafe { sys::ggml_backend_dev_get(device.index) };
    devices.iter().map(handle).chain([std::ptr::null_mut()]).collect()
}

pub(super) fn max_devices() -> usize {
    // SAFETY: it returns a constant.
    unsafe { sys::llama_max_devices() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_divided_as_llama_cpp_divides_them() {
        // As for `llama_max_devices()` of 16: the rest are zeros.
        let parts = |parts: &[f32]| {
            let mut all = vec![0.0; 16];
            all[..parts.len()].copy_from_slice(parts);
            all
        };
        assert_eq!(divided(29, 2, &parts(&[3.0, 1.0])), [22, 7]);
        assert_eq!(divided(20, 2, &parts(&[1.0, 1.0])), [10, 10]);
        assert_eq!(divided(9, 3, &parts(&[1.0, 0.0, 2.0])), [3, 0, 6]);
        assert_eq!(divided(7, 2, &parts(&[0.0, 1.0])), [0, 7]);
    }

    #[test]
    fn parts_that_are_not_one_for_each_device_are_named() {
        let said = |parts: &[u32], devices: &[&str]| {
            let devices: Vec<String> = devices.iter().map(|&name| name.to_owned()).collect();
            mismatch(parts, &devices)
        };
        assert_eq!(said(&[3, 1], &["CUDA0", "CUDA1"]), None);
        assert_eq!(said(&[], &["CUDA0", "CUDA1"]), None);
        assert_eq!(
            said(&[3, 1], &["CUDA0"]).unwrap(),
            "tensor_split has 2 parts for CUDA0: the last ones have no effect"
        );
        assert_eq!(
            said(&[1], &["CUDA0", "CUDA1", "CUDA2"]).unwrap(),
            "tensor_split has no part for CUDA1 and CUDA2: no layer goes there"
        );
    }

    #[test]
    fn one_device_has_all_layers_and_a_division_by_free_memory_is_not_known() {
        assert_eq!(divided(29, 1, &[]), [29]);
        assert_eq!(divided(29, 1, &[0.0, 0.0]), [29]);
        assert!(divided(29, 2, &[]).is_empty() && divided(29, 2, &[0.0; 16]).is_empty());
    }
}
