//! Errors of models. Each names the file and the remedy in one line.

use std::io;
use std::path::PathBuf;

use crate::published::is_alias;

/// Why a file's header cannot be used. The caller adds the name of the file.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    #[error("it is not a GGUF file")]
    NotGguf,
    #[error("it is a big-endian GGUF, which this machine cannot load")]
    BigEndian,
    #[error("it is a GGUF of version {version}; Hob reads versions 2 and 3")]
    Version { version: u32 },
    /// The file ends before its header or its tensors do.
    #[error("it is truncated: {expected_bytes} bytes are needed, it has {actual_bytes}")]
    Truncated {
        /// Minimum size of the file.
        expected_bytes: u64,
        actual_bytes: u64,
    },
    /// The bundled llama.cpp does not know this type either.
    #[error("tensor {tensor} has the unknown type {id}")]
    TensorType { tensor: String, id: u32 },
    #[error("it is damaged at byte {offset}: {what}")]
    Damaged {
        /// The end of the invalid field.
        offset: u64,
        what: &'static str,
    },
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl GgufError {
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NotGguf => "give a model in the GGUF format",
            Self::BigEndian => "fetch the little-endian file, or convert the model again",
            Self::Version { version: 0 | 1 } => "convert the model again with a current llama.cpp",
            Self::Version { .. } | Self::TensorType { .. } => "it needs a newer Hob",
            Self::Truncated { .. } | Self::Damaged { .. } => "fetch the file again",
            Self::Io(_) => "check the disk and the file's permissions",
        }
    }
}

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("there is no file {}; check the path, or see `hob models` for what is here", path.display())]
    Missing { path: PathBuf },
    #[error("cannot read {}: {source}; check its permissions", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("cannot use {}: {source}; {}", path.display(), source.remedy())]
    Invalid { path: PathBuf, source: GgufError },
    #[error(
        "{} is part of a model in {total} files, {} of them missing; fetch the rest",
        path.display(),
        missing.len()
    )]
    ShardsMissing {
        path: PathBuf,
        total: u32,
        /// From 1.
        missing: Vec<u32>,
    },
    /// A probe has failed; `reason` says at what.
    #[error(
        "cannot use {}: {reason}: the file is damaged or of a kind that this version of Hob does not \
         know; fetch it again, or choose another model",
        path.display()
    )]
    Refused { path: PathBuf, reason: String },
    #[error("{} is no regular file; give the path of a GGUF file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{} is not a language model but a file of kind `{what}`; give the model itself", path.display())]
    NotAModel { path: PathBuf, what: String },
    /// Settings, answers and lists of models are text.
    #[error("cannot use {}: its path is not UTF-8; rename the file or its directory", path.display())]
    NotUtf8 { path: PathBuf },
    #[error("no model is named `{name}`{}", hint(.name, .suggestion))]
    Unknown { name: String, suggestion: Option<String> },
    #[error("`{name}` could be any of {}; give a path", list(.paths))]
    Ambiguous {
        name: String,
        /// The files that it may mean.
        paths: Vec<PathBuf>,
    },
}

fn hint(name: &str, suggestion: &Option<String>) -> String {
    match suggestion {
        _ if is_alias(name) => "; `cargo xtask model` fetches it".to_owned(),
        Some(name) => format!("; did you mean `{name}`?"),
        None => "; `hob models` lists what is here, or give the path of a GGUF file".to_owned(),
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
