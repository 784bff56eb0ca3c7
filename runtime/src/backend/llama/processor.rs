//! Whether this processor has the instructions that llama.cpp was compiled with, and which others it has.
//!
//! - Without them, SIGILL ends the process at the first one. Of the child that tries a model file, that would be
//!   remembered as the file's fault.
//! - AMX is not compared: the standard library detects it in nightly compilers only. On Linux, llama.cpp asks the
//!   kernel for AMX before its first such instruction, and computes without it where the kernel refuses.
//! - Elsewhere than on x86-64, a build keeps to what every processor of the architecture has. A portable build loads
//!   what this one can run, see `backends`.

use crate::backend::LoadError;

/// To be called before anything that llama.cpp computes.
///
/// # Errors
/// [`LoadError::Processor`].
pub fn check_processor() -> Result<(), LoadError> {
    check(&compiled(), &detected())
}

/// Extensions that this processor has and llama.cpp was not compiled with. Of a portable build, which chooses among
/// all, none.
pub(super) fn unused() -> Vec<&'static str> {
    beyond(&compiled(), &detected())
}

fn beyond(compiled: &[&str], detected: &[&'static str]) -> Vec<&'static str> {
    detected.iter().filter(|name| !compiled.contains(name)).copied().collect()
}

/// Extensions of the instruction set: those that llama.cpp was `compiled` with, and those of this processor.
fn check(compiled: &[&str], detected: &[&str]) -> Result<(), LoadError> {
    let missing = compiled.iter().filter(|name| !detected.contains(name));
    let missing: Vec<&str> = missing.copied().collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(LoadError::Processor { missing: missing.join(", ") })
    }
}

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
fn compiled() -> Vec<&'static str> {
    use llama_cpp_sys_2 as sys;

    // SAFETY: each takes nothing and returns a constant, by the flags of its compilation.
    let all = unsafe {
        [
            ("AVX", sys::ggml_cpu_has_avx()),
            ("AVX2", sys::ggml_cpu_has_avx2()),
            ("F16C", sys::ggml_cpu_has_f16c()),
            ("FMA", sys::ggml_cpu_has_fma()),
            ("BMI2", sys::ggml_cpu_has_bmi2()),
            ("AVX-VNNI", sys::ggml_cpu_has_avx_vnni()),
            ("AVX-512", sys::ggml_cpu_has_avx512()),
            ("AVX-512-VBMI", sys::ggml_cpu_has_avx512_vbmi()),
            ("AVX-512-VNNI", sys::ggml_cpu_has_avx512_vnni()),
            ("AVX-512-BF16", sys::ggml_cpu_has_avx512_bf16()),
        ]
    };
    all.into_iter().filter(|(_, has)| *has != 0).map(|(name, _)| name).collect()
}

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
fn detected() -> Vec<&'static str> {
    use std::arch::is_x86_feature_detected;

    let all = [
        ("AVX", is_x86_feature_detected!("avx")),
        ("AVX2", is_x86_feature_detected!("avx2")),
        ("F16C", is_x86_feature_detected!("f16c")),
        ("FMA", is_x86_feature_detected!("fma")),
        ("BMI2", is_x86_feature_detected!("bmi2")),
        ("AVX-VNNI", is_x86_feature_detected!("avxvnni")),
        ("AVX-512", is_x86_feature_detected!("avx512f")),
        ("AVX-512-VBMI", is_x86_feature_detected!("avx512vbmi")),
        ("AVX-512-VNNI", is_x86_feature_detected!("avx512vnni")),
        ("AVX-512-BF16", is_x86_feature_detected!("avx512bf16")),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

#[cfg(not(all(target_arch = "x86_64", not(feature = "portable"))))]
fn compiled() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(not(all(target_arch = "x86_64", not(feature = "portable"))))]
fn detected() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASWELL: [&str; 5] = ["AVX", "AVX2", "F16C", "FMA", "BMI2"];

    #[test]
    fn a_processor_without_what_llama_cpp_was_compiled_with_is_refused_by_name_with_the_remedy() {
        let newer = [&HASWELL[..], &["AVX-512"]].concat();
        assert_eq!([check(&HASWELL, &HASWELL), check(&HASWELL, &newer)], [Ok(()), Ok(())]);
        let sandy_bridge = check(&HASWELL, &["AVX"]).unwrap_err().to_string();
        assert!(sandy_bridge.contains("without AVX2, F16C, FMA, BMI2:"), "{sandy_bridge}");
        assert!(sandy_bridge.contains("cargo xtask bundle --headless"), "{sandy_bridge}");
        assert_eq!(check(&[], &[]), Ok(()), "a portable build needs none");
    }

    #[test]
    fn what_a_processor_has_and_a_build_does_not_use_is_named() {
        let newer = [&HASWELL[..], &["AVX-512"]].concat();
        assert_eq!(beyond(&HASWELL, &newer), ["AVX-512"]);
        assert!(beyond(&newer, &newer).is_empty() && beyond(&newer, &HASWELL).is_empty());
    }

    #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
    #[test]
    fn llama_cpp_is_compiled_with_avx2_and_this_processor_runs_it() {
        assert!(compiled().contains(&"AVX2"), "{:?}", compiled());
        assert_eq!(check_processor(), Ok(()));
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(feature = "portable")))]
    #[test]
    fn the_extensions_of_this_processor_are_those_that_the_kernel_lists() {
        let listed = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = listed.lines().find(|line| line.starts_with("flags")).unwrap();
        let detected = detected();
        for (flag, name) in [
            ("avx2", "AVX2"),
            ("avx_vnni", "AVX-VNNI"),
            ("avx512f", "AVX-512"),
            ("avx512vbmi", "AVX-512-VBMI"),
            ("avx512_vnni", "AVX-512-VNNI"),
            ("avx512_bf16", "AVX-512-BF16"),
        ] {
            let is_listed = flags.split_whitespace().any(|listed| listed == flag);
            assert_eq!(detected.contains(&name), is_listed, "{name}");
        }
    }
}
