//! The memory allocator of the process.

/// Arenas that all threads share. glibc would open up to eight for each core, and what a busy moment leaves
/// free in one, the threads of another cannot use. docs/MEASUREMENTS.md, *Under load*, has what that takes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: i32 = 2;

/// Bounds glibc's arenas, unless `MALLOC_ARENA_MAX` does. To be called before the process starts threads.
/// Other allocators stay as they are.
pub fn bound_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the C library's function")]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        // SAFETY: mallopt takes two numbers, and M_ARENA_MAX may be set at any time.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
    }
}
