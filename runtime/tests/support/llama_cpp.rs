//! Models of the repository's `assets` on llama.cpp.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hob_runtime::Model;
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};

pub fn asset(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets").join(name)
}

/// An asset, or a file with an absolute path, on one thread.
pub fn load(file: impl AsRef<Path>) -> Arc<dyn Model> {
    let options = LlamaOptions { threads: 1, ..LlamaOptions::default() };
    Arc::new(LlamaModel::load(&asset("").join(file), options).expect("the model loads"))
}
