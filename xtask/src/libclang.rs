//! Finds libclang with clang's own headers, where the packages of the known systems install them.
//!
//! - Without the headers the build of llama.cpp's bindings fails on `stddef.h`. Debian packages
//!   them apart from the library, so this module looks for both.
//! - A `LIBCLANG_PATH` in the environment is trusted. The build itself searches more places, and
//!   lists them when it finds no library.

use std::env;

use crate::command::Line;

const LIBRARIES: [&str; 5] = [
    "/usr/lib/llvm*/lib",   // Debian, Ubuntu
    "/usr/lib*",            // Fedora, Arch
    "/usr/lib*/llvm*/lib*", // Fedora, several versions
    "/Library/Developer/CommandLineTools/usr/lib",
    "/Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib",
];

/// Not `libclang-cpp.so.14`, which is another library.
const NAMES: [&str; 3] = ["libclang.so*", "libclang-[0-9]*.so*", "libclang.dylib"];

/// Below each of `LIBRARIES`.
const HEADER: &str = "clang/*/include/stddef.h";

pub fn is_installed() -> bool {
    let library = LIBRARIES.iter().any(|directory| has_library(directory));
    let headers = || LIBRARIES.iter().any(|directory| matches(&format!("{directory}/{HEADER}")));
    env::var_os("LIBCLANG_PATH").is_some() || library && headers()
}

fn has_library(directory: &str) -> bool {
    NAMES.iter().any(|name| matches(&format!("{directory}/{name}")))
}

/// Whether a path matches the shell pattern.
fn matches(pattern: &str) -> bool {
    Line::new("sh -c")
        .arg(format!("for path in {pattern}; do test -e \"$path\" && exit; done; exit 1"))
        .succeeds()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_names_of_all_known_systems_are_found_and_no_other() {
        let directory = env::temp_dir().join(format!("xtask-libclang-{}", std::process::id()));
        let is_found = |name: &str| {
            fs::create_dir_all(&directory).expect("writable");
            fs::write(directory.join(name), "").expect("writable");
            let is_found = has_library(directory.to_str().expect("it is text"));
            fs::remove_dir_all(&directory).expect("it was just made");
            is_found
        };
        for name in
            ["libclang.so", "libclang.so.1", "libclang-14.so", "libclang-14.so.1", "libclang.dylib"]
        {
            assert!(is_found(name), "{name}");
        }
        for name in ["libclang-cpp.so.14", "libclangAST.a", "libclang.a", "clang.so"] {
            assert!(!is_found(name), "{name}");
        }
    }
}
