//! What is told of a model: where it is, what it would take, and what is kept of it.
//!
//! - Pure but for following links.

use std::fs;
use std::path::Path;

use hob_models::{Estimate, ModelFile, Source, Summary, Verdict};
use hob_slots::ModelHash;
use serde::Serialize;
use serde_json::{Value, json};

/// Where the bundled model comes from.
pub const BUNDLED: &str = "bundled";

/// What is kept of a model's conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Under which fingerprint.
    #[serde(serialize_with = "as_text")]
    pub fingerprint: ModelHash,
    /// How many conversations.
    pub conversations: usize,
    /// Bytes of their files.
    pub bytes: u64,
}

fn as_text<S: serde::Serializer>(hash: &ModelHash, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(hash)
}

/// A model that was found.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What to write for `model` in order to run it.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Who keeps it.
    pub source: &'static str,
    /// Whether it runs.
    pub is_current: bool,
    /// What is kept of its conversations; `None` where that is not known without reading all of it.
    pub kept: Option<Kept>,
    /// Its file and what is in it; `None` for a stand-in.
    pub file: Option<File>,
}

/// A model's file.
#[derive(Clone, Debug)]
pub struct File {
    /// As it was found.
    pub model: ModelFile,
    /// What it would take.
    pub estimate: Estimate,
    /// Whether that is there; `None` where the system does not tell what is free.
    pub verdict: Option<Verdict>,
}

impl Entry {
    pub(super) fn of_file(
        model: &ModelFile,
        is_bundled: bool,
        is_current: bool,
        kept: Option<Kept>,
        estimate: Estimate,
        free_bytes: Option<u64>,
    ) -> Self {
        // The current model's weights are in memory already.
        let own = if is_current { estimate.weights_bytes } else { 0 };
        let verdict = free_bytes.map(|free| estimate.verdict(free.saturating_add(own)));
        Self {
            id: if is_bundled { BUNDLED.to_owned() } else { id(model) },
            name: model.name.clone(),
            source: if is_bundled { BUNDLED } else { model.source.as_str() },
            is_current,
            kept,
            file: Some(File { model: model.clone(), estimate, verdict }),
        }
    }

    pub(super) fn of_stand_in(name: &str, is_current: bool, kept: Option<Kept>) -> Self {
        let name = name.to_owned();
        Self { id: name.clone(), name, source: "test", is_current, kept, file: None }
    }

    /// Whether its file is the one at `path`.
    pub fn is_at(&self, path: &Path) -> bool {
        self.file.as_ref().is_some_and(|file| is_same(&file.model.path, path))
    }

    /// As it goes to clients.
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
            "verdict": file.and_then(|file| file.verdict),
            "current": self.is_current,
            "kept": self.kept,
        })
    }
}

/// A path stays what it is; what Ollama pulls anew lies at another one, and keeps its name.
fn id(model: &ModelFile) -> String {
    let named = model.aliases.iter().find(|alias| alias.starts_with("ollama:"));
    match named.filter(|_| model.source == Source::Ollama) {
        Some(alias) => alias.clone(),
        None => absolute(&model.path),
    }
}

/// The path, wherever the next daemon is started.
pub(super) fn absolute(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.to_string_lossy().into_owned()
}

/// Whether both paths lead to one file.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}
