//! A model that llama.cpp can load: its header is valid, and all its shards are there.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cards;
use crate::error::ModelError;
use crate::fit::{Demand, Estimate, mtp_kv_bytes};
use crate::gguf::Header;
use crate::shards::{self, Group};
use crate::source::Source;
use crate::summary::{Summary, has_long_factors, original_context};

/// llama.cpp rounds the tokens of a context up to a multiple of it.
const CONTEXT_STEP: u64 = 256;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelFile {
    pub name: String,
    /// Other names that [`resolve`](crate::resolve) accepts.
    pub aliases: Vec<String>,
    pub source: Source,
    /// The file to load; the first of `files`. UTF-8.
    pub path: PathBuf,
    /// Its shards.
    pub files: Vec<PathBuf>,
    pub size_bytes: u64,
    pub weights_bytes: u64,
    #[serde(flatten)]
    pub summary: Summary,
}

impl ModelFile {
    /// Reads and checks the model at `path`, and the shards beside it.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        // Otherwise the error would name missing shards.
        if !path.exists() {
            return Err(ModelError::Missing { path: path.to_owned() });
        }
        Self::of_group(shards::siblings(path), Source::Path)
    }

    pub(crate) fn of_group(group: Group, source: Source) -> Result<Self, ModelError> {
        let path = group.files.first().cloned().unwrap_or_default();
        if !group.missing.is_empty() {
            let Group { total, missing, .. } = group;
            return Err(ModelError::ShardsMissing { path, total, missing });
        }
        let header = Header::open(&path)?;
        if let Some(what) = other_kind(&header) {
            return Err(ModelError::NotAModel { path, what });
        }
        if path.to_str().is_none() {
            return Err(ModelError::NotUtf8 { path });
        }
        let (mut size_bytes, mut weights_bytes) = (header.file_bytes, header.tensor_bytes());
        let mut summary = Summary::of(&header);
        for shard in &group.files[1..] {
            let shard = Header::open(shard)?;
            size_bytes = size_bytes.saturating_add(shard.file_bytes);
            weights_bytes = weights_bytes.saturating_add(shard.tensor_bytes());
            if has_long_factors(&shard) {
                summary.short_context = original_context(&header);
            }
        }
        if summary.sampling.iter().all(|entry| entry.parameter.is_none()) {
            summary.sampling.extend(cards::sampling_of(&header, &group.stem));
        }
        Ok(Self {
            name: group.stem,
            aliases: Vec::new(),
            source,
            path,
            files: group.files,
            size_bytes,
            weights_bytes,
            summary,
        })
    }

    pub fn estimate(&self, demand: &Demand) -> Estimate {
        Estimate::new(&self.summary, self.weights_bytes, demand)
    }

    /// The part of the estimate's KV that the MTP heads of the file have, in a context of their own.
    pub fn mtp_kv_bytes(&self, demand: &Demand) -> u64 {
        mtp_kv_bytes(&self.summary, demand)
    }

    /// Whether a context of `tokens` has other KV than a short one, see [`Summary::short_context`].
    pub fn rotates_by_long_factors(&self, tokens: u64) -> bool {
        let tokens = tokens.next_multiple_of(CONTEXT_STEP);
        self.summary.short_context.is_some_and(|short| tokens > short)
    }

    /// Whether both are the same file on disk.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        real(&self.path) == real(&other.path)
    }
}

/// The kind of a file that is not a language model, such as an image projector.
fn other_kind(header: &Header) -> Option<String> {
    let architecture = header.text("general.architecture");
    match header.text("general.type") {
        Some("model") | None if architecture == Some("clip") => Some("projector".to_owned()),
        Some("model") => None,
        Some("mmproj") => Some("projector".to_owned()),
        Some(other) => Some(other.chars().take(40).collect()),
        None if architecture.is_none() => Some("GGUF without an architecture".to_owned()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Gguf, asset};

    #[test]
    fn a_model_is_opened_with_all_its_shards() {
        let dir = tempfile::tempdir().unwrap();
        let first = dir.path().join("big-00001-of-00002.gguf");
        let second = dir.path().join("big-00002-of-00002.gguf");
        Gguf::new("llama").tensor("a", 64).write(&first);
        let error = ModelFile::open(&first).unwrap_err().to_string();
        assert!(error.contains("2 files, 1 of them missing"), "{error}");

        Gguf::new("llama").tensor("b", 32).write(&second);
        for path in [&first, &second] {
            let model = ModelFile::open(path).unwrap();
            assert_eq!((model.name.as_str(), &model.path), ("big", &first));
            assert_eq!(model.weights_bytes, (64 + 32) * 4);
        }
    }

    #[test]
    fn a_context_that_is_longer_than_the_original_one_has_other_kv_by_long_factors() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let phi = || {
            let gguf = Gguf::new("phi3").number("phi3.context_length", 8192);
            gguf.number("phi3.rope.scaling.original_context_length", 4096)
        };
        let long = "rope_factors_long.weight";
        phi().tensor("a", 64).write(&path("one.gguf"));
        phi().tensor(long, 48).write(&path("long.gguf"));
        phi().tensor("a", 64).write(&path("big-00001-of-00002.gguf"));
        Gguf::new("phi3").tensor(long, 48).write(&path("big-00002-of-00002.gguf"));
        for (name, expected) in [
            ("one.gguf", [false; 4]),
            ("long.gguf", [false, false, true, true]),
            ("big-00001-of-00002.gguf", [false, false, true, true]),
        ] {
            let model = ModelFile::open(&path(name)).unwrap();
            let is_long = [64, 4096, 4097, 8192].map(|it| model.rotates_by_long_factors(it));
            assert_eq!(is_long, expected, "{name}");
        }
    }

    #[test]
    fn a_file_that_recommends_parameters_has_none_of_the_models_card() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.gguf");
        let qwen3 = || {
            let gguf = Gguf::new("qwen3").text("general.name", "Qwen3 8B");
            gguf.text("tokenizer.chat_template", "{{ messages }}")
        };
        let parameters = |gguf: Gguf| {
            gguf.write(&path);
            let sampling = ModelFile::open(&path).unwrap().summary.sampling.into_iter();
            sampling.filter_map(|entry| Some((entry.parameter?, entry.value?))).collect::<Vec<_>>()
        };
        let card = [("temperature", 0.6), ("top_p", 0.95), ("top_k", 20.0), ("min_p", 0.0)];
        assert_eq!(parameters(qwen3()), card);
        let own = qwen3().float("general.sampling.temp", 0.5);
        assert_eq!(parameters(own), [("temperature", 0.5)]);
        let unusable = qwen3().number("general.sampling.mirostat", 2);
        assert_eq!(parameters(unusable), card);
    }

    #[test]
    fn a_file_that_is_no_language_model_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.gguf");
        Gguf::new("clip").write(&path);
        assert!(ModelFile::open(&path).unwrap_err().to_string().contains("`projector`"));
        Gguf::new("llama").text("general.type", "adapter").write(&path);
        assert!(ModelFile::open(&path).unwrap_err().to_string().contains("`adapter`"));
    }

    #[test]
    fn the_bundled_model_is_opened() {
        let model = ModelFile::open(&asset("hob-tiny-f16.gguf")).unwrap();
        assert_eq!((model.name.as_str(), model.size_bytes), ("hob-tiny-f16", 3_790_784));
    }
}
