//! Disables WebKit's shared (DMA-BUF) buffers where they do not work: with NVIDIA's own driver and on
//! machines without a graphics device, WebKit would show nothing or crash.
//!
//! - The variable must be set before the first thread starts: the program executes itself again with it.
//! - A value that the user has set is left alone.

use anyhow::Result;

const VARIABLE: &str = "WEBKIT_DISABLE_DMABUF_RENDERER";

/// Executes the program again when the variable is needed; returns otherwise.
#[cfg(target_os = "linux")]
pub fn prepare() -> Result<()> {
    use std::os::unix::process::CommandExt;
    use std::path::Path;

    use anyhow::Context;

    if std::env::var_os(VARIABLE).is_some() {
        return Ok(());
    }
    let has_nvidia = Path::new("/proc/driver/nvidia/version").exists();
    let devices = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten();
    let names = devices.map(|device| device.file_name().to_string_lossy().into_owned());
    if !must_copy(has_nvidia, names) {
        return Ok(());
    }
    let error = super::program::command()?.env(VARIABLE, "1").exec();
    Err(error).context("cannot start this program again")
}

/// Only WebKitGTK has these buffers.
#[cfg(not(target_os = "linux"))]
pub fn prepare() -> Result<()> {
    Ok(())
}

/// Whether WebKit must copy buffers. `devices`: the names in `/dev/dri`.
#[cfg(any(target_os = "linux", test))]
fn must_copy(has_nvidia: bool, mut devices: impl Iterator<Item = String>) -> bool {
    has_nvidia || !devices.any(|name| name.starts_with("renderD"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_buffers_are_used_with_a_render_node_and_without_nvidia() {
        let devices =
            |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(!must_copy(false, devices(&["card0", "renderD128"]).into_iter()));
        assert!(must_copy(false, devices(&["card0"]).into_iter()));
        assert!(must_copy(false, devices(&[]).into_iter()));
        assert!(must_copy(true, devices(&["card0", "renderD128"]).into_iter()));
    }
}
