//! Memory that a device reads and writes by itself, for states on their way.
//!
//! A driver copies any other memory piecewise through some of its own, and a state is a piece for K and for V of
//! each layer.

use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

/// Longer states go without.
const BYTES: usize = 64 << 20;

pub(super) struct Staging {
    buffer: NonNull<sys::ggml_backend_buffer>,
    base: NonNull<u8>,
}

impl Staging {
    /// Allocates it on the first of `devices` that offers such memory.
    pub fn new(devices: &[String]) -> Option<Self> {
        devices.iter().find_map(|name| Self::of_device(name))
    }

    fn of_device(name: &str) -> Option<Self> {
        let name = std::ffi::CString::new(name).ok()?;
        // SAFETY: the name ends with a NUL; the pointers are null or llama.cpp's own, valid until it ends. A
        // buffer without memory is freed at once.
        unsafe {
            let device = sys::ggml_backend_dev_by_name(name.as_ptr());
            if device.is_null() {
                return None;
            }
            let kind = sys::ggml_backend_dev_host_buffer_type(device);
            if kind.is_null() {
                return None;
            }
            let buffer = NonNull::new(sys::ggml_backend_buft_alloc_buffer(kind, BYTES))?;
            let base = sys::ggml_backend_buffer_get_base(buffer.as_ptr());
            match NonNull::new(base.cast()) {
                Some(base) => Some(Self { buffer, base }),
                None => {
                    sys::ggml_backend_buffer_free(buffer.as_ptr());
                    None
                }
            }
        }
    }

    /// The first `len` bytes; `None` where there are fewer.
    pub fn bytes(&mut self, len: usize) -> Option<&mut [u8]> {
        // SAFETY: the buffer has `BYTES` bytes at `base`, lives as long as `self`, and is borrowed with it. Any
        // bytes are valid, and the operating system has cleared those that were never written.
        (len <= BYTES).then(|| unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), len) })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // SAFETY: the buffer is this value's own, and nothing borrows it any more.
        unsafe { sys::ggml_backend_buffer_free(self.buffer.as_ptr()) };
    }
}
