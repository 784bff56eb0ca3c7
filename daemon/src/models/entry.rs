//! One model of the list: its file, the memory that it needs, and its saved KV.
//!
//! - Pure, except that symbolic links are resolved.

use std::fs;
use std::path::Path;

use hob_models::{
    Available, ChosenContext, ContextSettings, Estimate, ModelFile, Source, Summary, Verdict,
};
use hob_slots::ModelHash;
use serde::Serialize;
use serde_json::{Value, json};

/// The source and the id of the bundled model.
pub const BUNDLED: &str = "bundled";

/// The saved KV of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SavedKv {
    #[serde(serialize_with = "as_text")]
    pub fingerprint: ModelHash,
    pub conversations: usize,
    pub bytes: u64,
}

fn as_text<S: serde::Serializer>(hash: &ModelHash, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(hash)
}

#[derive(Clone, Debug)]
pub struct Entry {
    /// The value of the setting `model` that chooses it.
    pub id: String,
    pub name: String,
    pub source: &'static str,
    pub is_current: bool,
    /// `None` if the file has not been hashed: its fingerprint is unknown.
    pub saved_kv: Option<SavedKv>,
    /// `None` for a fake.
    pub file: Option<File>,
    /// With the settings.
    pub context: ChosenContext,
    /// With the setting `auto`.
    pub automatic: ChosenContext,
    /// What other contexts would take.
    pub sizes: Vec<ContextSize>,
}

/// The contexts of one model.
pub(super) struct Contexts {
    pub settings: ContextSettings,
    /// With these settings.
    pub chosen: ChosenContext,
    /// With the setting `auto`.
    pub automatic: ChosenContext,
}

/// A context, and the bytes of its KV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ContextSize {
    pub tokens: u64,
    pub kv_bytes: u64,
}

/// The contexts that are offered: powers of two.
const OFFERED_CONTEXTS: [u64; 8] = [2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144];

/// The largest one that is offered for a fake.
const MAX_FAKE_TOKENS: u64 = 65_536;

impl Contexts {
    /// The offered sizes up to `trained` tokens, and those of the settings.
    fn sizes(&self, trained: u64, kv_bytes: impl Fn(u64) -> u64) -> Vec<ContextSize> {
        let known = OFFERED_CONTEXTS.into_iter().filter(|tokens| *tokens <= trained);
        let mut offered: Vec<u64> =
            known.chain([self.chosen.tokens, self.automatic.tokens]).collect();
        offered.sort_unstable();
        offered.dedup();
        let size = |tokens| ContextSize { tokens, kv_bytes: kv_bytes(tokens) };
        offered.into_iter().map(size).collect()
    }
}

#[derive(Clone, Debug)]
pub struct File {
    pub model: ModelFile,
    /// The memory that it needs.
    pub estimate: Estimate,
    /// `None` if the system does not report its free memory.
    pub verdict: Option<Verdict>,
    /// Whether the devices hold all of it; `None` without a device with memory of its own.
    pub fits_device: Option<bool>,
}

impl Entry {
    pub(super) fn of_file(
        model: &ModelFile,
        is_bundled: bool,
        is_current: bool,
        saved_kv: Option<SavedKv>,
        contexts: Contexts,
        room: Option<Available>,
    ) -> Self {
        let Contexts { settings, chosen, automatic } = contexts;
        let estimate = model.estimate(&settings.demand(chosen.tokens));
        let kv_bytes = |ctx| model.estimate(&settings.demand(ctx)).kv_bytes;
        let trained = model.summary.trained_context.unwrap_or(chosen.tokens);
        let verdict = room.map(|room| estimate.verdict(room.total_bytes()));
        let gets_all = settings.gpu_layers.is_none_or(|layers| layers > model.summary.n_layer);
        let fits_device = room
            .filter(|room| room.device_bytes > 0)
            .map(|room| gets_all && estimate.verdict(room.device_bytes) != Verdict::TooLarge);
        Self {
            id: if is_bundled { BUNDLED.to_owned() } else { id(model) },
            name: model.name.clone(),
            source: if is_bundled { BUNDLED } else { model.source.as_str() },
            is_current,
            saved_kv,
            file: Some(File { model: model.clone(), estimate, verdict, fits_device }),
            context: chosen,
            automatic,
            sizes: contexts.sizes(trained, kv_bytes),
        }
    }

    pub(super) fn of_fake(
        name: &str,
        is_current: bool,
        saved_kv: Option<SavedKv>,
        contexts: Contexts,
        kv_bytes: impl Fn(u64) -> u64,
    ) -> Self {
        Self {
            id: name.to_owned(),
            name: name.to_owned(),
            source: "test",
            is_current,
            saved_kv,
            file: None,
            context: contexts.chosen,
            automatic: contexts.automatic,
            sizes: contexts.sizes(MAX_FAKE_TOKENS, kv_bytes),
        }
    }

    /// Whether its file is the one at `path`.
    pub fn is_at(&self, path: &Path) -> bool {
        self.file.as_ref().is_some_and(|file| is_same(&file.model.path, path))
    }

    pub fn is_named(&self, file_name: &str) -> bool {
        let name = self.file.as_ref().and_then(|file| file.model.path.file_name());
        name.is_some_and(|name| name == file_name)
    }

    pub fn to_json(&self) -> Value {
        let summary = |of: fn(&Summary) -> Value| {
            self.file.as_ref().map_or(Value::Null, |file| of(&file.model.summary))
        };
        let file = self.file.as_ref();
        json!({
            "id": self.id,
            "name": self.name,
            "source": self.source,
            "path": file.map(|file| &file.model.path),
            "files": file.map(|file| file.model.files.len()),
            "size_bytes": file.map(|file| file.model.size_bytes),
            "title": summary(|s| json!(s.title)),
            "architecture": summary(|s| json!(s.architecture)),
            "quantisation": summary(|s| json!(s.quantisation)),
            "memory": summary(|s| json!(s.memory)),
            "trained_context": summary(|s| json!(s.trained_context)),
            "chat_template": summary(|s| json!(s.chat_template)),
            "pooling": summary(|s| json!(s.pooling)),
            "estimate": file.map(|file| file.estimate),
            "ctx": self.context.tokens,
            "ctx_limit": self.context.limit.as_str(),
            "auto": {"tokens": self.automatic.tokens, "limit": self.automatic.limit.as_str()},
            "contexts": self.sizes,
            "verdict": file.and_then(|file| file.verdict),
            "fits_device": file.and_then(|file| file.fits_device),
            "current": self.is_current,
            "kept": self.saved_kv,
        })
    }
}

/// The path, or Ollama's name: Ollama stores each version of a model at another path.
fn id(model: &ModelFile) -> String {
    let named = model.aliases.iter().find(|alias| alias.starts_with("ollama:"));
    match named.filter(|_| model.source == Source::Ollama) {
        Some(alias) => alias.clone(),
        None => absolute(&model.path),
    }
}

/// Independent of the working directory of the next daemon.
pub(super) fn absolute(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.to_string_lossy().into_owned()
}

/// Whether both paths are the same file.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_hold_no_model_of_which_the_settings_put_a_part_there() {
        let model = ModelFile::open(&hob_testkit::asset("hob-tiny-f16.gguf")).unwrap();
        let fits = |gpu_layers| {
            let settings = ContextSettings::new(Some(512), 4, 4, ["f16", "f16"]);
            let chosen = ChosenContext::set(512, None);
            let settings = settings.with_gpu_layers(gpu_layers);
            let contexts = Contexts { settings, chosen, automatic: chosen };
            let room = Available { host_bytes: 0, device_bytes: 1 << 30 };
            let entry = Entry::of_file(&model, false, false, None, contexts, Some(room));
            entry.file.unwrap().fits_device
        };
        let expected = [Some(true), Some(true), Some(false)];
        assert_eq!([None, Some(5), Some(4)].map(fits), expected, "it has four and the output");
    }
}
