//! Where a model was found.

use serde::Serialize;

/// The program that owns a model's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Named by the user.
    Path,
    /// Hob's own data directory.
    Own,
    Ollama,
    LmStudio,
    /// The cache of Hugging Face's libraries.
    HuggingFace,
    /// The cache of llama.cpp's programs.
    LlamaCpp,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Own => "hob",
            Self::Ollama => "ollama",
            Self::LmStudio => "lm-studio",
            Self::HuggingFace => "hugging-face",
            Self::LlamaCpp => "llama.cpp",
        }
    }
}
