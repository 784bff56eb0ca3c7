//! Builds llama-server, which `bench peer` compares hobd with, and which some of hobd's tests start. No part of Hob
//! depends on it.
//!
//! - llama.cpp's stock source of the package that hob-fetch pins by its hash, the newest of the index when it was
//!   pinned. It is built as Hob builds its own: for generic processors with AVX2, without the page and TLS.

use std::path::Path;

use crate::command::{Failure, Line};
use crate::model;

const SOURCE: &str = "target/peer/source";
const BUILD: &str = "target/peer/build";

const CONFIGURE: &str = "cmake -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF \
     -DLLAMA_BUILD_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF";

/// Whether hobd's tests find it.
pub fn is_built() -> bool {
    Path::new(BUILD).join("bin/llama-server").is_file()
}

/// Takes about ten minutes on two cores, once.
pub fn build() -> Result<(), Failure> {
    model::fetch_llama_cpp(SOURCE)?;
    Line::new(CONFIGURE).args(["-S", SOURCE, "-B", BUILD]).run()?;
    // Without a number, make starts all compilers at once.
    let cores = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    Line::new("cmake --build")
        .arg(BUILD)
        .args(["--target", "llama-server", "--parallel", &cores])
        .run()
}
