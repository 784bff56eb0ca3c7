//! llama.cpp's compute threads, with their own polling.
//!
//! The functions of a pool belong to the processor's backend, which a portable build loads at start:
//! they are asked for by name, as llama.cpp's own programs do.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

type New = unsafe extern "C" fn(*mut sys::ggml_threadpool_params) -> *mut sys::ggml_threadpool;
type Free = unsafe extern "C" fn(*mut sys::ggml_threadpool);

pub(super) struct Pool {
    pointer: NonNull<sys::ggml_threadpool>,
    free: Free,
}

impl Pool {
    /// `None` where the backend has no pools, or cannot make one.
    pub fn new(threads: i32, poll: u32) -> Option<Self> {
        let (new, free) = (function(c"ggml_threadpool_new")?, function(c"ggml_threadpool_free")?);
        // SAFETY: ggml-cpu gives these functions under these names (`ggml_backend_cpu_get_proc_address`);
        // their types are those of ggml-cpu.h. The parameters are plain values that the call copies.
        unsafe {
            let new = std::mem::transmute::<NonNull<c_void>, New>(new);
            let free = std::mem::transmute::<NonNull<c_void>, Free>(free);
            let mut params = sys::ggml_threadpool_params_default(threads);
            params.poll = poll;
            NonNull::new(new(&raw mut params)).map(|pointer| Self { pointer, free })
        }
    }

    pub fn as_ptr(&self) -> *mut sys::ggml_threadpool {
        self.pointer.as_ptr()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the context that used the pool has detached it: `Context::drop` runs first.
        unsafe { (self.free)(self.as_ptr()) }
    }
}

/// A function of the processor's backend.
fn function(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: backends and their devices live as long as the process; the name ends with a NUL.
    unsafe {
        let device = sys::ggml_backend_dev_by_type(sys::GGML_BACKEND_DEVICE_TYPE_CPU);
        if device.is_null() {
            return None;
        }
        let backend = sys::ggml_backend_dev_backend_reg(device);
        NonNull::new(sys::ggml_backend_reg_get_proc_address(backend, name.as_ptr()))
    }
}
