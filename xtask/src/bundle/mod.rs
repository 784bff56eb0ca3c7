//! Makes what others install: an archive with hobd and hob, and the bundles of the desktop app.
//!
//! - All of it is the portable build: `lib/hob` has llama.cpp once for each generation of processors,
//!   and the program loads the one that fits the processor when it starts. With a backend for devices, that is
//!   one more file: where its driver is missing, the processor computes.
//! - It has a target directory of its own, so that it never replaces what `cargo xtask run` built; and one for each
//!   device, so that it contains no library of another build.

mod archive;
mod desktop;
mod documents;

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Failure, Line};
use crate::detect;
use crate::gpu::{CUDA_COMPILER, Gpu};

/// Makes the archive and, unless `headless`, the bundles of the desktop app; prints their paths. `gpu`: with the
/// backend for such devices.
pub fn make(headless: bool, gpu: Option<Gpu>) -> Result<(), Failure> {
    let tool = if headless { None } else { Some(desktop::tool()?) };
    let build = Portable { gpu };
    build.run()?;
    build.lay_out()?;
    archive::make(build)?;
    tool.map_or(Ok(()), |tool| desktop::make(build, tool))
}

/// The portable build.
#[derive(Clone, Copy)]
struct Portable {
    /// Besides the processor.
    gpu: Option<Gpu>,
}

impl Portable {
    fn target(self) -> String {
        let device = self.gpu.map(|gpu| format!("-{}", gpu.feature())).unwrap_or_default();
        format!("target/portable{device}")
    }

    /// What both kinds of bundles contain, laid out as it is installed.
    fn tree(self) -> PathBuf {
        Path::new(&self.target()).join("tree")
    }

    /// The features of a package, whose name and a slash are `of`.
    fn features(self, of: &str) -> String {
        let device = self.gpu.map(|gpu| format!(",{of}{}", gpu.feature())).unwrap_or_default();
        format!("{of}portable{device}")
    }

    /// A command of this build.
    fn line(self, line: &str) -> Line {
        // Beside the program, where a build leaves them, or where they are installed.
        let flags = if cfg!(target_os = "macos") {
            "-C link-arg=-Wl,-rpath,@loader_path,-rpath,@loader_path/../lib/hob"
        } else {
            "-C link-arg=-Wl,-rpath,$ORIGIN:$ORIGIN/../lib/hob"
        };
        let line = Line::new(line).env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", self.target());
        let nvcc = if self.gpu == Some(Gpu::Cuda) { detect::cuda_compiler() } else { None };
        let line = nvcc.into_iter().fold(line, |line, nvcc| line.env(CUDA_COMPILER, nvcc));
        // llama.cpp's fit comes with a client of HTTPS, which would need this machine's OpenSSL elsewhere.
        if self.gpu.is_some() { line.env("CMAKE_DISABLE_FIND_PACKAGE_OpenSSL", "ON") } else { line }
    }

    fn run(self) -> Result<(), Failure> {
        let packages = "--package hob-daemon --package hob-cli --features";
        let line = format!("cargo build --release {packages} {}", self.features("hob-daemon/"));
        self.line(&line).run()
    }

    fn lay_out(self) -> Result<(), Failure> {
        let tree = self.tree();
        let failed = |error| {
            Failure::new(format!("cannot write {}: {error}", tree.display()), "see its permissions")
        };
        let (bin, lib) = (tree.join("bin"), tree.join("lib/hob"));
        fs::remove_dir_all(&tree).or_else(absent).map_err(failed)?;
        fs::create_dir_all(&bin).and_then(|()| fs::create_dir_all(&lib)).map_err(failed)?;
        let built = Path::new(&self.target()).join("release");
        for program in ["hobd", "hob"] {
            fs::copy(built.join(program), bin.join(program)).map_err(failed)?;
        }
        for library in libraries(&self.target(), self.gpu)? {
            let name = library.file_name().expect("a library has a name");
            fs::copy(&library, lib.join(name)).map_err(failed)?;
        }
        Ok(())
    }
}

fn absent(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// The libraries that a program needs at run time, of the newest build of llama.cpp below `target`; that for `gpu`
/// must be among them.
fn libraries(target: &str, gpu: Option<Gpu>) -> Result<Vec<PathBuf>, Failure> {
    let missing = || {
        let device = gpu.map(|gpu| format!(" with {}", gpu.library())).unwrap_or_default();
        Failure::new(
            format!("no shared libraries of llama.cpp{device} are below {target}"),
            format!("remove {target}, and try again"),
        )
    };
    let builds = entries(&Path::new(target).join("release/build")).into_iter();
    let outs = builds.map(|build| build.join("out")).filter(|out| out.join("backends").is_dir());
    let newest = outs.max_by_key(|out| fs::metadata(out).and_then(|it| it.modified()).ok());
    let out = newest.ok_or_else(missing)?;
    let linked = ["lib", "lib64"].into_iter().flat_map(|dir| entries(&out.join(dir)));
    let linked = linked.filter(|path| is_asked_for_by_name(path));
    let loaded = entries(&out.join("backends")).into_iter().filter(|path| is_library(path));
    let all: Vec<PathBuf> = linked.chain(loaded).collect();
    let is_there =
        |gpu: Gpu| all.iter().any(|path| path.file_stem().is_some_and(|it| it == gpu.library()));
    let has_device = gpu.is_none_or(is_there);
    if has_device && !all.is_empty() { Ok(all) } else { Err(missing()) }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn is_library(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "so" || end == "dylib")
}

/// A program asks for `libllama.so.0`; `libllama.so` is for the linker alone, and the third file of
/// each library, with the whole version, is what both lead to.
fn is_asked_for_by_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((_, version)) = name.split_once(".so.") else { return name.ends_with(".dylib") };
    version.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_for_a_device_has_its_own_features_and_directory() {
        let build = Portable { gpu: Some(Gpu::Vulkan) };
        assert_eq!(build.features("hob-daemon/"), "hob-daemon/portable,hob-daemon/vulkan");
        assert_eq!(build.features(""), "portable,vulkan");
        let line = build.line("cargo build").to_string();
        assert!(line.contains("CARGO_TARGET_DIR=target/portable-vulkan"), "{line}");
        assert!(line.contains("CMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON"), "{line}");
        let alone = Portable { gpu: None };
        assert_eq!(
            (alone.features(""), alone.target()),
            ("portable".into(), "target/portable".into())
        );
        assert!(!alone.line("cargo build").to_string().contains("OpenSSL"));
    }

    #[test]
    fn a_bundle_without_the_library_of_its_device_is_not_made() {
        let target =
            std::env::temp_dir().join(format!("hob-xtask-libraries-{}", std::process::id()));
        let out = target.join("release/build/llama-cpp-sys-2-1/out");
        for dir in ["lib", "backends"] {
            fs::create_dir_all(out.join(dir)).unwrap();
        }
        let below = target.to_str().unwrap();
        assert!(libraries(below, None).is_err());
        fs::write(out.join("lib/libllama.so.0"), "").unwrap();
        fs::write(out.join("backends/libggml-cpu-haswell.so"), "").unwrap();
        assert_eq!(libraries(below, None).unwrap().len(), 2);
        let failure = libraries(below, Some(Gpu::Rocm)).unwrap_err().to_string();
        assert!(failure.contains("llama.cpp with libggml-hip"), "{failure}");
        fs::write(out.join("backends/libggml-hip.so"), "").unwrap();
        let found = libraries(below, Some(Gpu::Rocm));
        fs::remove_dir_all(&target).unwrap();
        assert_eq!(found.unwrap().len(), 3);
    }

    #[test]
    fn each_library_is_shipped_once_by_the_name_that_programs_ask_for() {
        let asked = |name: &str| is_asked_for_by_name(Path::new(name));
        assert!(asked("lib/libllama.so.0") && asked("lib/libggml-base.so.12"));
        assert!(!asked("lib/libllama.so") && !asked("lib/libllama.so.0.0.7"));
        assert!(!asked("lib/libllama.a") && !asked("lib/pkgconfig"));
    }
}
