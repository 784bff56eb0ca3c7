//! What can be wrong with a model, with the file and the remedy in one line.

use std::io;
use std::path::PathBuf;

/// Why a file's header cannot be used. It does not know the file's name.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The first bytes are not those of a GGUF.
    #[error("it is not a GGUF file")]
    NotGguf,
    /// The file was written for a machine of the other byte order.
    #[error("it is a big-endian GGUF, which this machine cannot load")]
    BigEndian,
    /// A version that this program does not know.
    #[error("it is a GGUF of version {version}; versions 2 and 3 are known")]
    Version {
        /// The version that the file claims.
        version: u32,
    },
    /// The file ends before its header or its tensors do.
    #[error("it is truncated: {expected_bytes} bytes are needed, it has {actual_bytes}")]
    Truncated {
        /// Least size of the whole file.
        expected_bytes: u64,
        /// Its size.
        actual_bytes: u64,
    },
    /// A tensor type that the llama.cpp inside does not know.
    #[error("tensor {tensor} has the unknown type {id}")]
    TensorType {
        /// The tensor.
        tensor: String,
        /// Number of the type.
        id: u32,
    },
    /// A field contradicts the format.
    #[error("it is damaged at byte {offset}: {what}")]
    Damaged {
        /// Where the field ends.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl GgufError {
    /// What the user can do about it.
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
    /// Nothing is at the path.
    #[error("there is no file {}; check the path, or see `hob models` for what is here", path.display())]
    Missing {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The file may not be read.
    #[error("cannot read {}: {source}; check its permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is there but cannot be loaded.
    #[error("cannot use {}: {source}; {}", path.display(), source.remedy())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: GgufError,
    },
    /// A split model lacks some of its files.
    #[error(
        "{} is part of a model in {total} files, {} of them missing; fetch the rest",
        path.display(),
        missing.len()
    )]
    ShardsMissing {
        /// The file that was found.
        path: PathBuf,
        /// How many there should be.
        total: u32,
        /// Numbers of those that are not there, from 1.
        missing: Vec<u32>,
    },
    /// The file holds something else than a language model.
    #[error("{} is no language model but a file of kind `{what}`; give the model itself", path.display())]
    NotAModel {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// No model has this name.
    #[error("no model is named `{name}`{}", hint(.suggestion))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// A name that is close.
        suggestion: Option<String>,
    },
    /// Several different models have this name.
    #[error("`{name}` could be any of {}; give a path", list(.paths))]
    Ambiguous {
        /// The name that was asked for.
        name: String,
        /// The files that it may mean.
        paths: Vec<PathBuf>,
    },
}

fn hint(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean `{name}`?"),
        None => "; `hob models` lists what is here, or give the path of a GGUF file".to_owned(),
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
