//! Checks that some crates build without a C++ compiler, cmake and libclang.
//!
//! - `cargo check` runs their build scripts, in a target directory of their own, so that no other build helps.
//! - Hides the tools with the environment variables of the build scripts.

use crate::command::{Failure, Line};

/// The crates that build without a C++ compiler.
const PURE: [&str; 3] = ["hob-slots", "hob-prewarm", "hob-cli"];
/// Crates that none of them may depend on, directly or not.
const NATIVE: [&str; 4] = ["llama-cpp-", "cmake", "bindgen", "clang-sys"];

pub fn check() -> Result<(), Failure> {
    let packages = || PURE.iter().flat_map(|package| ["--package", package]);
    Line::new("cargo check --target-dir target/pure")
        .args(packages())
        .env("CXX", "false")
        .env("CMAKE", "false")
        .env("LLVM_CONFIG_PATH", "false")
        .env("LIBCLANG_PATH", "/nonexistent")
        .run()?;

    let tree =
        Line::new("cargo tree --edges normal,build --prefix none --format {p}").args(packages());
    println!("$ {tree}");
    let tree = tree.output()?;
    let found = natives(&tree);
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        format!("{} depend on {}", PURE.join(", "), found.join(", ")),
        "keep llama.cpp in hob-runtime; `cargo tree --invert <crate>` shows the path",
    ))
}

/// The crates in the output of `cargo tree` that need a native toolchain.
fn natives(tree: &str) -> Vec<&str> {
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    let mut found: Vec<_> =
        names.filter(|name| NATIVE.iter().any(|native| name.starts_with(native))).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_native_crate_deep_in_the_tree_is_found_once() {
        let tree =
            "hob-cli v0.1.0 (/hob/cli)\nclap v4.5.0\n\nbindgen v0.72.1\nbindgen v0.72.1 (*)\n";
        assert_eq!(natives(tree), ["bindgen"]);
        assert!(natives("hob-slots v0.1.0\nserde v1.0.0 (*)").is_empty());
    }
}
