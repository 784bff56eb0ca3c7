//! Makes what others install: an archive with hobd and hob, and the bundles of the desktop app.
//!
//! - All of it is the portable build: `lib/hob` has llama.cpp once for each generation of processors,
//!   and the program loads the one that fits the processor when it starts.
//! - It has a target directory of its own, so that it never replaces what `cargo xtask run` built.

mod archive;
mod desktop;

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Failure, Line};

const TARGET: &str = "target/portable";

/// What both kinds contain, laid out as it is installed.
const TREE: &str = "target/portable/tree";

/// Makes the archive and, unless `headless`, the bundles of the desktop app; prints their paths.
pub fn make(headless: bool) -> Result<(), Failure> {
    let tool = if headless { None } else { Some(desktop::tool()?) };
    build()?;
    lay_out()?;
    archive::make()?;
    tool.map_or(Ok(()), desktop::make)
}

/// A command of the portable build.
fn portable(line: &str) -> Line {
    // Beside the program, where a build leaves them, or where they are installed.
    let flags = if cfg!(target_os = "macos") {
        "-C link-arg=-Wl,-rpath,@loader_path,-rpath,@loader_path/../lib/hob"
    } else {
        "-C link-arg=-Wl,-rpath,$ORIGIN:$ORIGIN/../lib/hob"
    };
    Line::new(line).env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", TARGET)
}

fn build() -> Result<(), Failure> {
    let packages = "--package hob-daemon --package hob-cli --features hob-daemon/portable";
    portable(&format!("cargo build --release {packages}")).run()
}

fn lay_out() -> Result<(), Failure> {
    let failed =
        |error| Failure::new(format!("cannot write {TREE}: {error}"), "see its permissions");
    let (bin, lib) = (Path::new(TREE).join("bin"), Path::new(TREE).join("lib/hob"));
    fs::remove_dir_all(TREE).or_else(absent).map_err(failed)?;
    fs::create_dir_all(&bin).and_then(|()| fs::create_dir_all(&lib)).map_err(failed)?;
    let built = Path::new(TARGET).join("release");
    for program in ["hobd", "hob"] {
        fs::copy(built.join(program), bin.join(program)).map_err(failed)?;
    }
    for library in libraries()? {
        let name = library.file_name().expect("a library has a name");
        fs::copy(&library, lib.join(name)).map_err(failed)?;
    }
    Ok(())
}

fn absent(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// The libraries that a program needs at run time, of the newest build of llama.cpp.
fn libraries() -> Result<Vec<PathBuf>, Failure> {
    let missing = || {
        Failure::new(
            format!("no shared libraries of llama.cpp are below {TARGET}"),
            format!("remove {TARGET}, and try again"),
        )
    };
    let builds = entries(&Path::new(TARGET).join("release/build")).into_iter();
    let outs = builds.map(|build| build.join("out")).filter(|out| out.join("backends").is_dir());
    let newest = outs.max_by_key(|out| fs::metadata(out).and_then(|it| it.modified()).ok());
    let out = newest.ok_or_else(missing)?;
    let linked = ["lib", "lib64"].into_iter().flat_map(|dir| entries(&out.join(dir)));
    let linked = linked.filter(|path| is_asked_for_by_name(path));
    let loaded = entries(&out.join("backends")).into_iter().filter(|path| is_library(path));
    let all: Vec<PathBuf> = linked.chain(loaded).collect();
    if all.is_empty() { Err(missing()) } else { Ok(all) }
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
    fn each_library_is_shipped_once_by_the_name_that_programs_ask_for() {
        let asked = |name: &str| is_asked_for_by_name(Path::new(name));
        assert!(asked("lib/libllama.so.0") && asked("lib/libggml-base.so.12"));
        assert!(!asked("lib/libllama.so") && !asked("lib/libllama.so.0.0.7"));
        assert!(!asked("lib/libllama.a") && !asked("lib/pkgconfig"));
    }
}
