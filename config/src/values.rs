//! The types of settings that have a meaning of their own.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

/// The model that the user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelChoice {
    /// The model that comes with the program.
    Bundled,
    /// A path, or a name found among the models on this machine.
    Named(String),
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bundled => f.write_str("bundled"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// The context that the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextChoice {
    /// Chosen for each model when it is loaded.
    Auto,
    Tokens(u32),
}

impl ContextChoice {
    /// Bounds of a number of tokens.
    pub const TOKENS: RangeInclusive<u64> = 64..=1 << 24;

    /// `None`: chosen for each model.
    pub fn tokens(self) -> Option<u64> {
        match self {
            Self::Auto => None,
            Self::Tokens(tokens) => Some(tokens.into()),
        }
    }
}

impl fmt::Display for ContextChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Tokens(tokens) => tokens.fmt(f),
        }
    }
}

/// The layers that the user wants on devices besides the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuLayers {
    /// As many as fit, at each load of a model.
    Auto,
    Count(u32),
}

impl GpuLayers {
    /// Bounds of a number of layers. More than the model has means all.
    pub const COUNTS: RangeInclusive<u64> = 0..=10_000;

    /// `None` of [`GpuLayers::Auto`].
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Auto => None,
            Self::Count(count) => Some(count.into()),
        }
    }
}

impl fmt::Display for GpuLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

/// A LoRA adapter of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// A GGUF file.
    pub path: PathBuf,
    /// Factor of what it adds; finite.
    pub scale: f32,
}

impl Eq for Adapter {} // A finite number equals itself.

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path.display(), self.scale)
    }
}

/// A LoRA adapter that requests may add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAdapter {
    /// Different from those of the others.
    pub name: String,
    /// A GGUF file.
    pub path: PathBuf,
}

impl fmt::Display for NamedAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.path.display())
    }
}

/// Element type of the KV cache, by llama.cpp's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheType {
    F32,
    F16,
    Bf16,
    Q8_0,
    Q5_1,
    Q5_0,
    Q4_1,
    Q4_0,
}

/// The types that llama.cpp's flash attention reads on every device.
const CACHE_TYPES: [(CacheType, &str); 8] = [
    (CacheType::F32, "f32"),
    (CacheType::F16, "f16"),
    (CacheType::Bf16, "bf16"),
    (CacheType::Q8_0, "q8_0"),
    (CacheType::Q5_1, "q5_1"),
    (CacheType::Q5_0, "q5_0"),
    (CacheType::Q4_1, "q4_1"),
    (CacheType::Q4_0, "q4_0"),
];

impl CacheType {
    /// Every name, in lower case.
    pub const NAMES: [&'static str; CACHE_TYPES.len()] = {
        let mut names = [""; CACHE_TYPES.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = CACHE_TYPES[at].1;
            at += 1;
        }
        names
    };

    /// llama.cpp's name.
    pub fn as_str(self) -> &'static str {
        CACHE_TYPES[self as usize].1
    }
}

impl fmt::Display for CacheType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{got}` is not a cache type; choose one of {}", CacheType::NAMES.join(", "))]
pub struct CacheTypeError {
    pub got: String,
}

impl FromStr for CacheType {
    type Err = CacheTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = text.to_ascii_lowercase();
        let found = CACHE_TYPES.iter().find(|(_, name)| *name == wanted);
        found.map(|(kind, _)| *kind).ok_or_else(|| CacheTypeError { got: text.to_owned() })
    }
}

/// An enum whose values have names of one word.
macro_rules! choice {
    (
        $(#[$doc:meta])*
        $choice:ident, $error:ident: $count:literal { $($(#[$of:meta])* $value:ident = $name:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $choice {
            $($(#[$of])* $value,)+
        }

        impl $choice {
            pub const NAMES: [&'static str; $count] = [$($name),+];
        }

        impl fmt::Display for $choice {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Self::NAMES[*self as usize])
            }
        }

        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[error("`{got}` is not known; choose one of {}", $choice::NAMES.join(", "))]
        pub struct $error {
            pub got: String,
        }

        impl FromStr for $choice {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($name => Ok(Self::$value),)+
                    other => Err($error { got: other.to_owned() }),
                }
            }
        }
    };
}

choice! {
    /// The routes that programs on this machine may use without the token.
    OpenRoutes, OpenRoutesError: 2 {
        None = "none",
        /// The routes of Ollama's server: its API, and chats, completions, responses, embeddings and models of
        /// OpenAI's.
        Ollama = "ollama",
    }
}

choice! {
    /// Whether guessed tokens of answers are computed ahead of their turn.
    DraftChoice, DraftChoiceError: 2 {
        /// Where the model's memory can drop them again, and where that makes answers faster.
        Auto = "auto",
        Off = "off",
    }
}

choice! {
    /// What becomes of parts of a conversation that is longer than the cells that it may have.
    EvictionChoice, EvictionChoiceError: 4 {
        /// They leave the cells, and come back when the conversation turns to them.
        Restore = "restore",
        /// They leave but for a note of each, and stay away.
        Breadcrumb = "breadcrumb",
        /// They leave, and stay away.
        Discard = "discard",
        /// Such a conversation is refused.
        Off = "off",
    }
}

choice! {
    /// How the KV of aged conversations is rounded.
    LossyChoice, LossyChoiceError: 3 {
        /// It is not.
        Off = "off",
        /// 8 bits a number.
        Q8 = "q8",
        /// 4 bits a number.
        Q4 = "q4",
    }
}

/// Where several daemons share saved conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedPlace {
    /// One that all of them see, by its absolute path.
    Directory(PathBuf),
    /// S3-compatible storage. The prefix may be empty.
    S3 { bucket: String, prefix: String },
}

impl fmt::Display for SharedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "file://{}", path.display()),
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// How long saved KV stays after its last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlClass {
    Short,
    Long,
    Extended,
    /// Until the quota needs its bytes. `kept` is a deprecated alias.
    Permanent,
}

const TTL_CLASSES: [TtlClass; 4] =
    [TtlClass::Short, TtlClass::Long, TtlClass::Extended, TtlClass::Permanent];

impl TtlClass {
    /// Every name, by lifetime, ascending.
    pub const NAMES: [&'static str; 4] = ["short", "long", "extended", "permanent"];
}

impl fmt::Display for TtlClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{got}` is not a TTL class; choose one of {}", TtlClass::NAMES.join(", "))]
pub struct TtlClassError {
    pub got: String,
}

impl FromStr for TtlClass {
    type Err = TtlClassError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = if text == "kept" { "permanent" } else { text };
        let found = Self::NAMES.iter().position(|name| *name == word);
        found.map(|at| TTL_CLASSES[at]).ok_or_else(|| TtlClassError { got: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cache_type_is_read_back_from_its_name() {
        for (kind, name) in CACHE_TYPES {
            assert_eq!(kind.as_str(), name);
            assert_eq!(name.to_ascii_uppercase().parse(), Ok(kind));
        }
        for refused in ["q3_k", "iq4_nl"] {
            let error = refused.parse::<CacheType>().unwrap_err().to_string();
            assert!(error.contains(refused) && error.contains("q8_0"), "{error}");
        }
    }
}
