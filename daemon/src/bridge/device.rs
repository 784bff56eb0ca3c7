//! The description of this machine, by which the agent chooses among its devices.

use std::thread::available_parallelism;

use hob_models::MachineMemory;
use serde_json::{Value, json};

use super::Options;
use crate::blocking::compute;
use crate::models::devices;

const GIB: f64 = (1u64 << 30) as f64;

/// The first message of a connection.
pub async fn register(options: &Options) -> Value {
    let memory = MachineMemory::read();
    let in_gib = |bytes: u64| (bytes as f64 / GIB * 10.0).round() / 10.0;
    let gpu = compute(devices::here).await.into_iter().next().map(|device| {
        json!({
            "backend": backend(&device.name),
            "available": true,
            "totalVramGb": in_gib(device.total_bytes),
        })
    });
    json!({
        "type": "register",
        "payload": {
            "deviceId": options.place.device_id,
            "pairingToken": options.place.token,
            "capabilities": {
                "platform": "desktop",
                "deviceModel": concat!("hobd ", env!("CARGO_PKG_VERSION")),
                "totalRamGb": memory.map_or(0.0, |memory| in_gib(memory.total_bytes)),
                "availableRamGb": memory.and_then(|memory| memory.available_bytes).map(in_gib),
                "cpuCores": available_parallelism().map_or(1, usize::from),
                "gpu": gpu,
            },
            "loadedPath": options.model,
        },
    })
}

/// The agent's word for the driver of a device such as `CUDA0`.
fn backend(device: &str) -> &'static str {
    let device = device.to_ascii_lowercase();
    match ["cuda", "metal"].into_iter().find(|word| device.starts_with(word)) {
        Some(word) => word,
        None => "vulkan",
    }
}
