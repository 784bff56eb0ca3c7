//! Finds libclang where the build of llama.cpp's bindings will look for it.
//!
//! - The same places in the same order as the crates `clang-sys` and `bindgen`: `LIBCLANG_PATH` alone
//!   when it is set; else what `llvm-config` and `xcode-select` say, the library paths of the
//!   environment, and the usual directories.
//! - The library alone is not enough: without clang's own headers the bindings fail on `stddef.h`.
//!   Some distributions split the two, so both are looked for.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::command::Line;

/// Where libraries lie on Linux, as patterns: `*` stands for any text within one name.
const LINUX: [&str; 7] = [
    "/usr/local/llvm*/lib*",
    "/usr/local/lib*/*/*",
    "/usr/local/lib*/*",
    "/usr/local/lib*",
    "/usr/lib*/*/*",
    "/usr/lib*/*",
    "/usr/lib*",
];

const MACOS: [&str; 4] = [
    "/usr/local/opt/llvm*/lib/llvm*/lib",
    "/Library/Developer/CommandLineTools/usr/lib",
    "/Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib",
    "/usr/local/opt/llvm*/lib",
];

/// Where clang's own headers lie, seen from the directory of its library.
const HEADERS_BESIDE: [&str; 2] = ["clang/*/include/stddef.h", "../lib/clang/*/include/stddef.h"];

/// Where they lie when a distribution keeps them apart from the library.
const HEADERS_APART: [&str; 3] = [
    "/usr/lib*/clang/*/include/stddef.h",
    "/usr/lib*/llvm*/lib*/clang/*/include/stddef.h",
    "/usr/local/lib*/clang/*/include/stddef.h",
];

/// The first libclang that has its headers, if any.
pub fn find() -> Option<PathBuf> {
    // A person who names a library answers for its headers.
    if let Some(named) = env::var_os("LIBCLANG_PATH") {
        return libraries_at(Path::new(&named)).into_iter().next();
    }
    let patterns: &[&str] = if cfg!(target_os = "macos") { &MACOS } else { &LINUX };
    let usual = patterns.iter().flat_map(|pattern| expand(Path::new(pattern)));
    let directories = told_directories().into_iter().chain(usual);
    directories.flat_map(|directory| libraries_in(&directory)).find(|library| has_headers(library))
}

/// What the tools and the environment say, before any guess.
fn told_directories() -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let llvm_config = env::var("LLVM_CONFIG_PATH").unwrap_or_else(|_| "llvm-config".to_owned());
    if let Some(prefix) = first_line(&Line::new("").arg(llvm_config).arg("--prefix")) {
        directories.extend(["bin", "lib", "lib64"].map(|name| prefix.join(name)));
    }
    if cfg!(target_os = "macos")
        && let Some(developer) = first_line(&Line::new("xcode-select --print-path"))
    {
        directories.push(developer.join("Toolchains/XcodeDefault.xctoolchain/usr/lib"));
    }
    for variable in ["LD_LIBRARY_PATH", "LIBRARY_PATH"] {
        directories.extend(env::var_os(variable).iter().flat_map(env::split_paths));
    }
    directories
}

fn first_line(line: &Line) -> Option<PathBuf> {
    let output = line.command().output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()?.lines().next().map(PathBuf::from)
}

/// The libraries that a `LIBCLANG_PATH` means: itself, or those in it.
fn libraries_at(path: &Path) -> Vec<PathBuf> {
    let named_itself = path.file_name().is_some_and(is_libclang) && path.is_file();
    if named_itself { vec![path.to_owned()] } else { libraries_in(path) }
}

fn libraries_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let paths = names.filter(|name| is_libclang(name)).map(|name| directory.join(name));
    let mut paths: Vec<_> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

/// `libclang.so`, `libclang.so.1`, `libclang-14.so`, `libclang-14.so.1`, `libclang.dylib`; not
/// `libclang-cpp.so.14`, which is another library.
fn is_libclang(name: &OsStr) -> bool {
    let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("libclang")) else {
        return false;
    };
    let shared = rest.starts_with(".so") || rest.starts_with('-') && rest.contains(".so");
    rest == ".dylib" || shared && !rest.starts_with("-cpp")
}

fn has_headers(library: &Path) -> bool {
    has_headers_beside(library)
        || HEADERS_APART.iter().any(|pattern| !expand(Path::new(pattern)).is_empty())
}

fn has_headers_beside(library: &Path) -> bool {
    // The library may be a link out of the directory that has the headers, or into it.
    let resolved = fs::canonicalize(library).ok();
    let seen_from = [Some(library), resolved.as_deref()];
    let directories = seen_from.into_iter().flatten().filter_map(Path::parent);
    directories
        .flat_map(|directory| HEADERS_BESIDE.map(|pattern| directory.join(pattern)))
        .any(|pattern| !expand(&pattern).is_empty())
}

/// The paths that exist and match: every `*` stands for any text within one name.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        found = match component {
            Component::Normal(name) if name.to_string_lossy().contains('*') => {
                let name = name.to_string_lossy();
                found.iter().flat_map(|parent| matching_entries(parent, &name)).collect()
            }
            plain => found.iter().map(|parent| parent.join(plain)).collect(),
        };
    }
    found.retain(|path| path.exists());
    found
}

fn matching_entries(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let (before, after) = pattern.split_once('*').expect("only patterns with a star come here");
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .filter(|name| {
            let name = name.to_string_lossy();
            name.len() + 1 >= pattern.len() && name.starts_with(before) && name.ends_with(after)
        })
        .map(|name| directory.join(name))
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_distributions_use_are_known() {
        let known = [
            "libclang.so",
            "libclang.so.1",
            "libclang-14.so",
            "libclang-14.so.1",
            "libclang.dylib",
        ];
        let others = ["libclang-cpp.so.14", "libclangAST.a", "libclang.a", "clang.so"];
        assert!(known.iter().all(|name| is_libclang(name.as_ref())));
        assert!(!others.iter().any(|name| is_libclang(name.as_ref())));
    }

    #[test]
    fn a_star_stands_for_any_text_within_one_name() {
        let world =
            World::new("star").file("usr/lib64/llvm-14/lib/a").file("usr/lib/b").file("usr/libx");
        let found = |pattern: &str| expand(&world.0.join(pattern)).len();
        assert_eq!(found("usr/lib*"), 3);
        assert_eq!(found("usr/lib*/llvm*/lib"), 1);
        assert_eq!(found("usr/lib*/x"), 0);
        assert_eq!(found("usr/*b"), 1);
    }

    #[test]
    fn a_library_without_its_headers_does_not_count() {
        let world = World::new("headers").file("lib/libclang.so.1");
        let library = world.0.join("lib/libclang.so.1");
        assert!(!has_headers_beside(&library));

        let _world = world.file("lib/clang/14/include/stddef.h");
        assert!(has_headers_beside(&library));
    }

    /// Some files under a directory of their own, removed afterwards.
    struct World(PathBuf);

    impl World {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a temporary directory can be made");
            Self(path)
        }

        fn file(self, path: &str) -> Self {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().expect("it is in a directory")).expect("writable");
            fs::write(path, "").expect("writable");
            self
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
