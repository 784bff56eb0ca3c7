//! The backends that llama.cpp computes with.
//!
//! A portable build has them as files beside the program: one for each generation of processors, of
//! which ggml loads the best that this one can run. The working directory is not searched, as ggml
//! would do by itself: a file there may be anybody's.

use std::ffi::CStr;

use llama_cpp_sys_2 as sys;

use crate::backend::LoadError;

/// Loads them, where they are files. Before llama.cpp starts: it would search by itself if none is
/// loaded.
///
/// # Errors
/// [`LoadError::NoBackend`] when none computes on this processor.
pub(super) fn load() -> Result<(), LoadError> {
    #[cfg(feature = "portable")]
    for dir in dirs() {
        use std::os::unix::ffi::OsStrExt;

        if let Ok(dir) = std::ffi::CString::new(dir.as_os_str().as_bytes()) {
            // SAFETY: the path ends with a NUL. The files are Hob's own, installed with the program.
            unsafe { sys::ggml_backend_load_all_from_path(dir.as_ptr()) };
        }
        if check().is_ok() {
            break;
        }
    }
    check()
}

/// Where an installed program has its libraries; then where a build has them.
fn dirs() -> Vec<std::path::PathBuf> {
    let program = std::env::current_exe().ok();
    let bin = program.as_ref().and_then(|program| program.parent());
    bin.map(|bin| vec![bin.join("../lib/hob"), bin.to_owned()]).unwrap_or_default()
}

fn check() -> Result<(), LoadError> {
    // SAFETY: reads the list of devices.
    let device = unsafe { sys::ggml_backend_dev_by_type(sys::GGML_BACKEND_DEVICE_TYPE_CPU) };
    if device.is_null() {
        let dirs = dirs().iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>();
        return Err(LoadError::NoBackend { dirs: dirs.join(", ") });
    }
    Ok(())
}

/// What llama.cpp uses of the processor: `AVX2`, `AVX512_VNNI`, …
pub(super) fn features() -> Vec<String> {
    // SAFETY: llama.cpp returns a NUL-terminated text of its own, valid until the next call, and only
    // this function calls it, once.
    let text = unsafe { CStr::from_ptr(sys::llama_print_system_info()) }.to_string_lossy();
    let on = |part: &str| part.trim().strip_suffix(" = 1").map(str::to_owned);
    let after_device = |part: &str| part.rsplit(" : ").next().unwrap_or(part).to_owned();
    text.split('|').map(after_device).filter_map(|part| on(&part)).collect()
}
