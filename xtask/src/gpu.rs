//! Chooses what the build computes models on, by what this machine has.
//!
//! - Pure: [`choose`] and [`Choice`] decide by [`Machine`], which `detect` fills in.
//! - Without a device and its tools the build has the default features, so nothing is compiled anew.
//! - CUDA before Vulkan, because it is faster on the same card.

use std::collections::BTreeSet;

use crate::command::Line;
use crate::need::Need;

/// A backend of llama.cpp besides the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    Cuda,
    Vulkan,
    Metal,
    Rocm,
}

/// What the user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    #[default]
    Detect,
    None,
    Only(Gpu),
}

/// What this machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub is_macos: bool,
    /// A driver of NVIDIA that answers.
    pub nvidia_driver: bool,
    pub nvcc: bool,
    /// AMD's compiler, and ROCm's libraries where llama.cpp's build looks for them.
    pub hipcc: bool,
    pub rocm_libraries: bool,
    /// Apple's compiler for Metal's shaders comes with Xcode, or its command-line tools.
    pub xcode: bool,
    /// A graphics card or unit that Vulkan could use: a render node of the kernel.
    pub render_node: bool,
    pub glslc: bool,
    /// Recent enough for llama.cpp.
    pub vulkan_headers: bool,
    pub spirv_headers: bool,
}

/// What the build computes on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub gpu: Option<Gpu>,
    pub why: String,
    /// Architectures of NVIDIA's cards here, as CMake names them: `90`, or `86;90`.
    pub cuda_architectures: Option<String>,
    /// NVIDIA's, where CMake does not find it by itself.
    pub cuda_compiler: Option<String>,
    /// With all instructions of this processor. Other machines may not run such a build.
    pub native: bool,
}

/// The sys crate hands `native` on to llama.cpp.
const NATIVE_FLAGS: &str = "-C target-cpu=native";

/// A target of its own, because other flags would compile the other build's crates anew.
const NATIVE_TARGET: &str = "target/native";

/// Where a build leaves its programs.
pub fn programs(native: bool) -> String {
    format!("{}/release", if native { NATIVE_TARGET } else { "target" })
}

impl Gpu {
    const ALL: [Self; 4] = [Self::Cuda, Self::Vulkan, Self::Metal, Self::Rocm];

    /// The name of the cargo feature.
    pub fn feature(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Vulkan => "vulkan",
            Self::Metal => "metal",
            Self::Rocm => "rocm",
        }
    }

    /// The name of llama.cpp's shared library for it, without its ending.
    pub fn library(self) -> &'static str {
        match self {
            Self::Cuda => "libggml-cuda",
            Self::Vulkan => "libggml-vulkan",
            Self::Metal => "libggml-metal",
            Self::Rocm => "libggml-hip",
        }
    }

    /// What a build for it needs besides those of every build. NVIDIA's and AMD's tools come from their
    /// makers, not from a package of the system.
    pub fn needs(self) -> &'static [Need] {
        match self {
            Self::Vulkan => &Need::VULKAN,
            Self::Cuda | Self::Metal | Self::Rocm => &[],
        }
    }
}

/// Read by CMake. By default, llama.cpp compiles for seven architectures, and for recent cards to a language
/// that the driver compiles again at the first start.
pub const CUDA_ARCHITECTURES: &str = "CMAKE_CUDA_ARCHITECTURES";

/// Read by CMake: the path of NVIDIA's compiler.
pub const CUDA_COMPILER: &str = "CUDACXX";

/// From what `nvidia-smi` says of each card: `9.0`.
pub fn cuda_architectures(capabilities: &str) -> Option<String> {
    let number = |line: &str| line.trim().replace('.', "");
    let is_number = |text: &String| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let known: BTreeSet<_> = capabilities.lines().map(number).filter(is_number).collect();
    (!known.is_empty()).then(|| known.into_iter().collect::<Vec<_>>().join(";"))
}

impl Wish {
    /// # Errors
    /// Names the words that are known.
    pub fn parse(word: &str) -> Result<Self, String> {
        if word == "none" {
            return Ok(Self::None);
        }
        let gpu = Gpu::ALL.into_iter().find(|gpu| gpu.feature() == word);
        let unknown =
            || format!("--gpu {word} is not known: choose none, cuda, vulkan, metal or rocm");
        gpu.map(Self::Only).ok_or_else(unknown)
    }
}

/// Decides, and says why in one sentence.
pub fn choose(wish: Wish, machine: &Machine) -> Choice {
    let choice = |gpu, why: &str| Choice::new(gpu, why.to_owned());
    match wish {
        Wish::None if machine.is_macos => choice(
            None,
            "--gpu none (llama.cpp has Metal on macOS all the same: start hobd with --gpu-layers 0)",
        ),
        Wish::None => choice(None, "--gpu none"),
        Wish::Only(gpu) => choice(Some(gpu), &format!("--gpu {}", gpu.feature())),
        Wish::Detect if machine.is_macos => choice(Some(Gpu::Metal), "this is macOS"),
        Wish::Detect => detected(machine),
    }
}

fn detected(machine: &Machine) -> Choice {
    let vulkan_is_missing = missing_for_vulkan(machine);
    if machine.nvidia_driver && machine.nvcc {
        return Choice::new(Some(Gpu::Cuda), "a driver of NVIDIA and nvcc are here".to_owned());
    }
    if !machine.nvidia_driver && !machine.render_node {
        return Choice::new(None, "no graphics card is here".to_owned());
    }
    if vulkan_is_missing.is_empty() {
        let why = "a graphics card, Vulkan's headers and glslc are here".to_owned();
        return Choice::new(Some(Gpu::Vulkan), why);
    }
    let nvcc = if machine.nvidia_driver { "nvcc is missing for CUDA, and " } else { "" };
    let missing = vulkan_is_missing.join(", ");
    let why = format!(
        "a graphics card is here, but {nvcc}{missing} for Vulkan: `--gpu vulkan` installs what is missing"
    );
    Choice::new(None, why)
}

/// What a build for `gpu` lacks, and what to do, where no package of the system has it. Without it, the
/// build ends after minutes with an error of CMake.
pub fn makers_tools(gpu: Gpu, machine: &Machine) -> Option<(String, &'static str)> {
    let lacks = |parts: &[(bool, &'static str)]| {
        let missing: Vec<_> = parts.iter().filter(|(is_here, _)| !is_here).map(|it| it.1).collect();
        (!missing.is_empty())
            .then(|| format!("missing for --gpu {}: {}", gpu.feature(), missing.join(", ")))
    };
    let (missing, remedy) = match gpu {
        Gpu::Cuda => (
            lacks(&[(machine.nvcc, "nvcc, the compiler of NVIDIA's CUDA toolkit")]),
            "install the CUDA toolkit (https://developer.nvidia.com/cuda-downloads) into /usr/local/cuda, put \
             nvcc on the PATH, or name it in CUDACXX; or pass --gpu none",
        ),
        Gpu::Rocm => (
            lacks(&[
                (machine.hipcc, "hipcc, the compiler of AMD's ROCm"),
                (machine.rocm_libraries, "ROCm's libraries"),
            ]),
            "install ROCm (https://rocm.docs.amd.com) into /opt/rocm, or name its directory in ROCM_PATH; or \
             pass --gpu none",
        ),
        Gpu::Metal if !machine.is_macos => {
            (Some("Metal is on macOS only".to_owned()), "pass --gpu cuda, vulkan, rocm or none")
        }
        Gpu::Metal => (
            lacks(&[(machine.xcode, "Apple's command-line tools")]),
            "run `xcode-select --install`; then try again",
        ),
        Gpu::Vulkan => (None, ""), // Packages of the system: see `needs`.
    };
    missing.map(|missing| (missing, remedy))
}

fn missing_for_vulkan(machine: &Machine) -> Vec<&'static str> {
    let parts = [
        (machine.vulkan_headers, "headers of 2024 or later"),
        (machine.glslc, "glslc"),
        (machine.spirv_headers, "SPIR-V's headers"),
    ];
    parts.into_iter().filter(|(is_here, _)| !is_here).map(|(_, name)| name).collect()
}

impl Choice {
    fn new(gpu: Option<Gpu>, why: String) -> Self {
        Self { gpu, why, cuda_architectures: None, cuda_compiler: None, native: false }
    }

    /// One sentence for the terminal.
    pub fn description(&self) -> String {
        let what = match self.gpu {
            None => "the processor",
            Some(Gpu::Cuda) => "CUDA",
            Some(Gpu::Vulkan) => "Vulkan",
            Some(Gpu::Metal) => "Metal",
            Some(Gpu::Rocm) => "ROCm",
        };
        format!("gpu: building for {what}: {}", self.why)
    }

    /// Adds the feature to a build of `package`, and the flags for this processor alone. llama.cpp for Metal is the
    /// default on macOS.
    pub fn add_to(&self, build: Line, package: &str) -> Line {
        let build = if self.native {
            build.env("RUSTFLAGS", NATIVE_FLAGS).env("CARGO_TARGET_DIR", NATIVE_TARGET)
        } else {
            build
        };
        match self.gpu {
            None | Some(Gpu::Metal) => build,
            Some(gpu) => {
                let for_cuda = [
                    (CUDA_ARCHITECTURES, &self.cuda_architectures),
                    (CUDA_COMPILER, &self.cuda_compiler),
                ];
                let build = for_cuda.into_iter().fold(build, |build, (name, value)| match value {
                    Some(value) => build.env(name, value),
                    None => build,
                });
                build.args(["--features", &format!("{package}/{}", gpu.feature())])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINUX: Machine = Machine {
        is_macos: false,
        nvidia_driver: false,
        nvcc: false,
        hipcc: false,
        rocm_libraries: false,
        xcode: false,
        render_node: false,
        glslc: false,
        vulkan_headers: false,
        spirv_headers: false,
    };
    const VULKAN: Machine = Machine {
        render_node: true,
        glslc: true,
        vulkan_headers: true,
        spirv_headers: true,
        ..LINUX
    };

    fn detected(machine: &Machine) -> Option<Gpu> {
        choose(Wish::Detect, machine).gpu
    }

    #[test]
    fn without_a_card_the_build_is_the_default_one() {
        let choice = choose(Wish::Detect, &Machine { render_node: false, ..VULKAN });
        assert_eq!(
            choice.description(),
            "gpu: building for the processor: no graphics card is here"
        );
        let line = choice.add_to(Line::new("cargo build"), "hob-daemon");
        assert_eq!(line.to_string(), "cargo build");
    }

    #[test]
    fn a_card_and_the_tools_for_it_decide() {
        let nvidia = Machine { nvidia_driver: true, nvcc: true, ..LINUX };
        assert_eq!(detected(&nvidia), Some(Gpu::Cuda));
        assert_eq!(detected(&VULKAN), Some(Gpu::Vulkan));
        let both = Machine { nvidia_driver: true, nvcc: true, ..VULKAN };
        assert_eq!(detected(&both), Some(Gpu::Cuda), "the faster one");
        let without_nvcc = Machine { nvidia_driver: true, ..VULKAN };
        assert_eq!(detected(&without_nvcc), Some(Gpu::Vulkan));
        assert_eq!(detected(&Machine { nvcc: true, ..LINUX }), None, "tools alone");
        assert_eq!(detected(&Machine { is_macos: true, ..LINUX }), Some(Gpu::Metal));
    }

    #[test]
    fn a_card_without_tools_is_named_with_what_is_missing() {
        let machine = Machine { nvidia_driver: true, glslc: false, ..VULKAN };
        let choice = choose(Wish::Detect, &machine);
        assert_eq!(choice.gpu, None);
        assert!(
            choice.why.contains("nvcc is missing for CUDA, and glslc for Vulkan"),
            "{choice:?}"
        );
        assert!(choice.why.contains("--gpu vulkan"), "{choice:?}");
    }

    #[test]
    fn a_wish_overrides_what_is_found() {
        let wish = Wish::parse("vulkan").unwrap();
        let choice = choose(wish, &LINUX);
        assert_eq!(choice.gpu, Some(Gpu::Vulkan));
        let line = choice.add_to(Line::new("cargo build"), "hob-daemon");
        assert_eq!(line.to_string(), "cargo build --features hob-daemon/vulkan");
        assert_eq!(choose(Wish::parse("none").unwrap(), &VULKAN).gpu, None);
        assert!(Wish::parse("opencl").unwrap_err().contains("none, cuda, vulkan, metal or rocm"));
    }

    #[test]
    fn tools_of_a_maker_are_named_before_a_build_without_them() {
        let missing =
            |gpu, machine: &Machine| makers_tools(gpu, machine).map(|(missing, _)| missing);
        let nvcc = "missing for --gpu cuda: nvcc, the compiler of NVIDIA's CUDA toolkit";
        assert_eq!(missing(Gpu::Cuda, &LINUX).as_deref(), Some(nvcc));
        assert_eq!(missing(Gpu::Cuda, &Machine { nvcc: true, ..LINUX }), None);
        let rocm = missing(Gpu::Rocm, &LINUX).unwrap();
        assert!(rocm.contains("hipcc") && rocm.contains("ROCm's libraries"), "{rocm}");
        let half = missing(Gpu::Rocm, &Machine { hipcc: true, ..LINUX }).unwrap();
        assert!(!half.contains("hipcc") && half.contains("libraries"), "{half}");
        assert_eq!(
            missing(Gpu::Rocm, &Machine { hipcc: true, rocm_libraries: true, ..LINUX }),
            None
        );
        assert_eq!(missing(Gpu::Metal, &LINUX).as_deref(), Some("Metal is on macOS only"));
        let mac = Machine { is_macos: true, ..LINUX };
        let (tools, remedy) = makers_tools(Gpu::Metal, &mac).unwrap();
        assert!(tools.contains("command-line tools") && remedy.contains("xcode-select"), "{tools}");
        assert_eq!(missing(Gpu::Metal, &Machine { xcode: true, ..mac }), None);
        assert_eq!(missing(Gpu::Vulkan, &LINUX), None);
    }

    #[test]
    fn cuda_is_compiled_for_the_cards_that_are_here() {
        assert_eq!(cuda_architectures("9.0\n9.0\n").as_deref(), Some("90"));
        assert_eq!(cuda_architectures("12.0\n8.6\n").as_deref(), Some("120;86"));
        assert_eq!(cuda_architectures("[N/A]\n"), None, "an old driver does not say");
        let choice = Choice {
            cuda_architectures: cuda_architectures("9.0"),
            cuda_compiler: Some("/usr/local/cuda/bin/nvcc".to_owned()),
            ..choose(Wish::Only(Gpu::Cuda), &LINUX)
        };
        let line = choice.add_to(Line::new("cargo build"), "hob-daemon").to_string();
        assert!(line.contains("CMAKE_CUDA_ARCHITECTURES=90"), "{line}");
        assert!(line.contains("CUDACXX=/usr/local/cuda/bin/nvcc"), "{line}");
    }

    #[test]
    fn a_build_for_this_processor_alone_has_its_own_flags_and_directory() {
        let choice = Choice { native: true, ..choose(Wish::Only(Gpu::Vulkan), &LINUX) };
        let line = choice.add_to(Line::new("cargo build"), "p").to_string();
        let expected = "RUSTFLAGS='-C target-cpu=native' CARGO_TARGET_DIR=target/native cargo build \
                        --features p/vulkan";
        assert_eq!(line, expected);
        assert_eq!([programs(true), programs(false)], ["target/native/release", "target/release"]);
    }

    #[test]
    fn metal_needs_no_feature() {
        let choice = choose(Wish::Detect, &Machine { is_macos: true, ..LINUX });
        assert_eq!(choice.add_to(Line::new("cargo build"), "p").to_string(), "cargo build");
    }
}
