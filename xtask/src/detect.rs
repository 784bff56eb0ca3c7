//! Detects which needs this machine meets: runs each tool once or, where that would open a window
//! or take long, looks for its file. Never checks a version.

use std::env;
use std::path::{Path, PathBuf};

use crate::command::Line;
use crate::gpu::{self, Machine};
use crate::libclang;
use crate::need::Need;
use crate::packages::System;

pub fn missing(needs: &[Need]) -> Vec<Need> {
    needs.iter().copied().filter(|&need| !is_met(need)).collect()
}

/// This system, when its package names are known.
pub fn system() -> Option<&'static System> {
    if cfg!(target_os = "macos") {
        return System::from_id("macos");
    }
    System::from_os_release(&std::fs::read_to_string("/etc/os-release").ok()?)
}

pub fn is_root() -> bool {
    Line::new("id -u").output().is_ok_and(|id| id.trim() == "0")
}

pub fn has_sudo() -> bool {
    has_program(&["sudo"])
}

fn is_met(need: Need) -> bool {
    match need {
        Need::Cmake => Line::new(&tool("CMAKE", "cmake")).arg("--version").succeeds(),
        // A compiler driver may be installed without the headers of the standard library.
        Need::Compiler => {
            let probe =
                format!("echo '#include <vector>' | {} -x c++ -fsyntax-only -", tool("CXX", "c++"));
            Line::new("sh -c").arg(probe).succeeds()
        }
        Need::Make => {
            env::var_os("CMAKE_GENERATOR").is_some()
                || Line::new(&tool("MAKE", "make")).arg("--version").succeeds()
        }
        Need::Libclang => libclang::is_installed(),
        // Debian packages `venv` without the part that installs pip.
        Need::Python => Line::new("python3 -c").arg("import venv, ensurepip").succeeds(),
        Need::Curl => Line::new("curl --version").succeeds(),
        Need::Speech => Line::new("espeak-ng --version").succeeds(),
        Need::HaProxy => has_server("haproxy"),
        Need::Nginx => has_server("nginx"),
        Need::Chromium => has_program(&["chromium", "chromium-browser", "google-chrome"]),
        Need::ChromeDriver => has_program(&["chromedriver", "chromium.chromedriver"]),
        // Part of macOS, or not needed there.
        Need::WebKit
        | Need::Tray
        | Need::TrayHeaders
        | Need::WebKitDriver
        | Need::Display
        | Need::Bus
            if cfg!(target_os = "macos") =>
        {
            true
        }
        Need::TrayHeaders => ["ayatana-appindicator3-0.1", "appindicator3-0.1"]
            .iter()
            .any(|library| Line::new("pkg-config --exists").arg(*library).succeeds()),
        Need::WebKit => Line::new("pkg-config --exists webkit2gtk-4.1").succeeds(),
        Need::Tray => ["libayatana-appindicator3.so.1", "libappindicator3.so.1"]
            .iter()
            .any(|library| libraries().any(|place| place.join(library).exists())),
        Need::WebKitDriver => has_program(&["WebKitWebDriver"]),
        Need::Display => has_program(&["Xvfb"]),
        Need::Bus => has_program(&["dbus-daemon"]),
        // The extension came with those that llama.cpp needs.
        Need::VulkanHeaders => includes("vulkan/vulkan.h", "VK_EXT_layer_settings"),
        Need::Glslc => has_program(&["glslc"]),
        Need::SpirvHeaders => includes("spirv/unified1/spirv.hpp", "SPV_VERSION"),
        Need::SoftwareVulkan => has_file("/usr/share/vulkan/icd.d", "lvp_icd"),
    }
}

/// What decides about the device of a build.
pub fn gpu() -> Machine {
    Machine {
        is_macos: cfg!(target_os = "macos"),
        nvidia_driver: Line::new("nvidia-smi -L").succeeds(),
        nvcc: is_nvcc_found() || cuda_compiler().is_some(),
        hipcc: has_program(&["hipcc"]) || rocm().join("bin/hipcc").is_file(),
        rocm_libraries: rocm().join("lib").is_dir(),
        xcode: cfg!(target_os = "macos") && Line::new("xcode-select -p").succeeds(),
        render_node: has_file("/dev/dri", "renderD"),
        glslc: is_met(Need::Glslc),
        vulkan_headers: is_met(Need::VulkanHeaders),
        spirv_headers: is_met(Need::SpirvHeaders),
    }
}

/// Whether CMake finds NVIDIA's compiler by itself.
fn is_nvcc_found() -> bool {
    env::var_os(gpu::CUDA_COMPILER).is_some() || has_program(&["nvcc"])
}

/// NVIDIA's compiler in the directories in which NVIDIA's packages install it, if CMake does not find it: the packages do not
/// change `PATH`.
pub fn cuda_compiler() -> Option<String> {
    let places = ["/usr/local/cuda", "/opt/cuda"].map(|toolkit| format!("{toolkit}/bin/nvcc"));
    let is_needed = !is_nvcc_found();
    places.into_iter().find(|nvcc| is_needed && Path::new(nvcc).is_file())
}

/// For CMake. `None`: the user has chosen some, or no card answers.
pub fn cuda_architectures() -> Option<String> {
    if env::var_os(gpu::CUDA_ARCHITECTURES).is_some() {
        return None;
    }
    let capabilities = Line::new("nvidia-smi --query-gpu=compute_cap --format=csv,noheader");
    gpu::cuda_architectures(&capabilities.output().ok()?)
}

/// Where llama.cpp's build looks for ROCm.
fn rocm() -> PathBuf {
    let named = ["ROCM_PATH", "HIP_PATH"].into_iter().find_map(env::var_os);
    named.map_or_else(|| "/opt/rocm".into(), PathBuf::from)
}

/// Whether the compiler finds this header, and it defines `name`.
fn includes(header: &str, name: &str) -> bool {
    let sdk = env::var("VULKAN_SDK").map_or(String::new(), |sdk| format!("-I '{sdk}/include'"));
    let text = format!("#include <{header}>\\n#ifndef {name}\\n#error\\n#endif\\n");
    let compiler = tool("CXX", "c++");
    let probe = format!("printf '{text}' | {compiler} {sdk} -x c++ -fsyntax-only -");
    Line::new("sh -c").arg(probe).succeeds()
}

/// Whether the directory has a file whose name begins like this.
fn has_file(directory: &str, start: &str) -> bool {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names = files.map(|file| file.file_name());
    names.any(|name| name.to_string_lossy().starts_with(start))
}

/// Debian's servers are where the path of a user does not lead.
fn has_server(name: &str) -> bool {
    has_program(&[name]) || Path::new("/usr/sbin").join(name).is_file()
}

fn has_program(names: &[&str]) -> bool {
    let places: Vec<_> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    names.iter().any(|name| places.iter().any(|place| place.join(name).is_file()))
}

/// The directories of shared libraries on Linux.
fn libraries() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let multiarch = entries.map(|entry| entry.path());
    let multiarch = multiarch.filter(|path| path.to_string_lossy().ends_with("-gnu"));
    ["/usr/lib", "/usr/lib64", "/usr/local/lib"].into_iter().map(PathBuf::from).chain(multiarch)
}

fn tool(variable: &str, usual: &str) -> String {
    env::var(variable).unwrap_or_else(|_| usual.to_owned())
}
