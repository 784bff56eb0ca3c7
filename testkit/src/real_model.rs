//! The real model that `cargo xtask model` and `cargo xtask test` fetch.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The fetched GGUF file below `target/models`. Without it, writes to the terminal, past the test
/// harness, that the test `name` is skipped.
pub fn real_model(name: &str) -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/models");
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let found = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "gguf"));
    if found.is_none() {
        let remedy = "run `cargo xtask test`, or `cargo run -p hob-fetch -- --to target/models`";
        writeln!(io::stderr(), "{name} ... skipped: there is no real model; {remedy}").ok();
    }
    found
}
