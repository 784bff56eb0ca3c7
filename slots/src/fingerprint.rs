//! The fingerprint of a model, which names its directory.
//!
//! - Every option that changes the *meaning* of KV bytes is a field, and no other. The number of
//!   slots and the context size are left out, so resizing orphans no file, but for models that rotate by other
//!   factors in long contexts (LongRoPE): there `rope.scaling` is `longrope` in these.
//! - The hash covers all fields as text in a fixed order, so it is the same on every machine. The
//!   fields are saved as `model.toml`, for people and for [`Fingerprint::difference`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::{ModelHash, ParseIdError, hex_text, hex_text_form, parse_hex};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileDigest(pub [u8; 32]);

hex_text_form!(FileDigest, "file digest");

/// A model and every load option that changes the meaning of its KV bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The GGUF file; of a model in parts, all parts in order.
    pub model_sha256: FileDigest,
    /// The model drafts for another one: its KV is apart from that of the same file as the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drafts: bool,
    /// Such as `f16`.
    pub cache_type_k: String,
    pub cache_type_v: String,
    /// Whether V has the layout of flash attention.
    pub flash_attention: bool,
    /// Whether sliding-window layers keep the whole context.
    pub swa_full: bool,
    pub state_format: String,
    #[serde(default)]
    pub rope: Rope,
    /// Adapters, in the order in which they are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<Lora>,
}

/// An adapter and its weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lora {
    pub sha256: FileDigest,
    pub scale: f32,
}

/// Rotation settings that override the model's own; the default overrides nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rope {
    /// `model`, `none`, `linear`, `yarn` or `longrope`.
    pub scaling: String,
    /// Base frequency; 0 is the model's own.
    pub freq_base: f32,
    /// Frequency factor; 0 is the model's own.
    pub freq_scale: f32,
    /// YaRN: weight of extrapolation; negative is the model's own.
    pub yarn_ext_factor: f32,
    /// YaRN: magnitude of attention.
    pub yarn_attn_factor: f32,
    /// YaRN: low correction dimension.
    pub yarn_beta_fast: f32,
    /// YaRN: high correction dimension.
    pub yarn_beta_slow: f32,
    /// YaRN: the context that the model was trained with; 0 is the model's own.
    pub yarn_orig_ctx: u32,
}

impl Default for Rope {
    fn default() -> Self {
        Self {
            scaling: "model".to_owned(),
            freq_base: 0.0,
            freq_scale: 0.0,
            yarn_ext_factor: -1.0,
            yarn_attn_factor: 1.0,
            yarn_beta_fast: 32.0,
            yarn_beta_slow: 1.0,
            yarn_orig_ctx: 0,
        }
    }
}

impl Fingerprint {
    pub fn hash(&self) -> ModelHash {
        let mut text = String::from("hob fingerprint 1\n");
        for (name, value) in self.fields() {
            // So it was called first, and names stay.
            let name = if name == "drafts" { "drafter_sha256" } else { name };
            text.push_str(&format!("{name}={value}\n"));
        }
        let digest = Sha256::digest(text);
        ModelHash(digest[..8].try_into().expect("a SHA-256 has 32 bytes"))
    }

    /// The fields that differ: why one cannot use the other's files.
    pub fn difference(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.fields().into_iter().zip(other.fields());
        pairs.filter(|(ours, theirs)| ours != theirs).map(|((name, _), _)| name).collect()
    }

    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a fingerprint has only texts, numbers and tables")
    }

    pub fn from_toml(text: &str) -> Result<Self, FingerprintError> {
        toml::from_str(text).map_err(|error| FingerprintError { what: error.message().to_owned() })
    }

    /// Every field as text, in a fixed order. Texts are quoted, so no value can look like the
    /// beginning of the next field.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let rope = &self.rope;
        let drafts = if self.drafts { "another model" } else { "none" };
        let lora = |lora: &Lora| format!("{} {:?}", lora.sha256, lora.scale);
        let loras: Vec<_> = self.loras.iter().map(lora).collect();
        vec![
            ("model_sha256", self.model_sha256.to_string()),
            ("drafts", drafts.to_owned()),
            ("loras", loras.join(",")),
            ("cache_type_k", format!("{:?}", self.cache_type_k)),
            ("cache_type_v", format!("{:?}", self.cache_type_v)),
            ("flash_attention", self.flash_attention.to_string()),
            ("swa_full", self.swa_full.to_string()),
            ("state_format", format!("{:?}", self.state_format)),
            ("rope.scaling", format!("{:?}", rope.scaling)),
            ("rope.freq_base", format!("{:?}", rope.freq_base)),
            ("rope.freq_scale", format!("{:?}", rope.freq_scale)),
            ("rope.yarn_ext_factor", format!("{:?}", rope.yarn_ext_factor)),
            ("rope.yarn_attn_factor", format!("{:?}", rope.yarn_attn_factor)),
            ("rope.yarn_beta_fast", format!("{:?}", rope.yarn_beta_fast)),
            ("rope.yarn_beta_slow", format!("{:?}", rope.yarn_beta_slow)),
            ("rope.yarn_orig_ctx", rope.yarn_orig_ctx.to_string()),
        ]
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a fingerprint: {what}")]
pub struct FingerprintError {
    pub what: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn equal_settings_have_the_same_name_on_every_machine() {
        assert_eq!(usual().hash(), usual().hash());
        assert_eq!(usual().hash().to_string(), "15f437b276d82189");
    }

    #[test]
    fn every_field_changes_the_name_and_is_named_as_the_difference() {
        let mut hashes = BTreeSet::from([usual().hash()]);
        for (field, other) in variations() {
            assert_eq!(usual().difference(&other), [field]);
            assert!(hashes.insert(other.hash()), "{field} does not change the name");
        }
        assert_eq!(hashes.len(), 1 + usual().fields().len());
    }

    #[test]
    fn a_fingerprint_survives_its_file() {
        for (_, fingerprint) in variations() {
            let read = Fingerprint::from_toml(&fingerprint.to_toml()).unwrap();
            assert_eq!(read, fingerprint);
            assert_eq!(read.hash(), fingerprint.hash());
        }
    }

    #[test]
    fn a_file_with_a_field_missing_is_refused_with_its_name() {
        let text = usual().to_toml().replace("cache_type_k", "cache_type_q");
        let error = Fingerprint::from_toml(&text).unwrap_err();
        assert!(error.to_string().contains("cache_type_k"), "{error}");
    }

    fn usual() -> Fingerprint {
        Fingerprint {
            model_sha256: FileDigest([0xab; 32]),
            drafts: false,
            cache_type_k: "f16".into(),
            cache_type_v: "f16".into(),
            flash_attention: true,
            swa_full: false,
            state_format: "llama.cpp seq 2".into(),
            rope: Rope::default(),
            loras: Vec::new(),
        }
    }

    /// One fingerprint for each field, different in that field alone.
    fn variations() -> Vec<(&'static str, Fingerprint)> {
        let vary = |field, change: fn(&mut Fingerprint)| {
            let mut other = usual();
            change(&mut other);
            (field, other)
        };
        vec![
            vary("model_sha256", |f| f.model_sha256 = FileDigest([1; 32])),
            vary("drafts", |f| f.drafts = true),
            vary("loras", |f| f.loras.push(Lora { sha256: FileDigest([1; 32]), scale: 0.1 })),
            vary("cache_type_k", |f| f.cache_type_k = "q8_0".into()),
            vary("cache_type_v", |f| f.cache_type_v = "q8_0".into()),
            vary("flash_attention", |f| f.flash_attention = false),
            vary("swa_full", |f| f.swa_full = true),
            vary("state_format", |f| f.state_format = "llama.cpp seq 3".into()),
            vary("rope.scaling", |f| f.rope.scaling = "yarn".into()),
            vary("rope.freq_base", |f| f.rope.freq_base = 1e6),
            vary("rope.freq_scale", |f| f.rope.freq_scale = 0.3),
            vary("rope.yarn_ext_factor", |f| f.rope.yarn_ext_factor = 1.0),
            vary("rope.yarn_attn_factor", |f| f.rope.yarn_attn_factor = 1.1),
            vary("rope.yarn_beta_fast", |f| f.rope.yarn_beta_fast = 16.0),
            vary("rope.yarn_beta_slow", |f| f.rope.yarn_beta_slow = 2.0),
            vary("rope.yarn_orig_ctx", |f| f.rope.yarn_orig_ctx = 4_096),
        ]
    }
}
