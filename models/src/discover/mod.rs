//! Finds models where other programs keep them. One file a program.
//!
//! - Read-only, and never outside the roots it is given: tests build a tree, `main` passes what
//!   [`Roots::from_env`] computes.
//! - Every model that is listed was read and found whole; the others are told as problems.
//! - The same roots always give the same order: by source, then by name.

mod hugging_face;
mod llama_cpp;
mod lm_studio;
mod ollama;
mod roots;
mod walk;

use std::path::PathBuf;

use serde::Serialize;

pub use roots::Roots;

use crate::error::ModelError;
use crate::model::ModelFile;
use crate::shards::{self, Group};

/// Who keeps a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The user named the path.
    Path,
    /// Hob's own data directory.
    Own,
    /// Ollama.
    Ollama,
    /// LM Studio.
    LmStudio,
    /// The cache of Hugging Face's libraries.
    HuggingFace,
    /// The cache of llama.cpp's programs.
    LlamaCpp,
}

impl Source {
    /// Its name for people.
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

/// What was found.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Models that can be loaded.
    pub models: Vec<ModelFile>,
    /// Files that look like models but cannot be loaded, and why.
    pub problems: Vec<ModelError>,
}

/// Looks below all roots.
pub fn discover(roots: &Roots) -> Discovery {
    let mut found = Discovery::default();
    for root in &roots.own {
        found.add_files(walk::gguf_files(root), Source::Own, |_, _| {});
    }
    roots.ollama.iter().for_each(|root| ollama::find(root, &mut found));
    roots.lm_studio.iter().for_each(|root| lm_studio::find(root, &mut found));
    roots.hugging_face.iter().for_each(|root| hugging_face::find(root, &mut found));
    roots.llama_cpp.iter().for_each(|root| llama_cpp::find(root, &mut found));
    found.models.sort_by(|a, b| (a.source, &a.name, &a.path).cmp(&(b.source, &b.name, &b.path)));
    found.models.dedup_by(|a, b| a.source == b.source && a.name == b.name && a.is_same_file(b));
    found
}

impl Discovery {
    /// Adds the models that these files make up; `name` may rename each.
    fn add_files(
        &mut self,
        files: Vec<PathBuf>,
        source: Source,
        name: impl Fn(&mut ModelFile, &Group),
    ) {
        for group in shards::group(files.into_iter().filter(|path| !is_projector(path))) {
            self.add(ModelFile::of_group(group.clone(), source), |model| name(model, &group));
        }
    }

    fn add(&mut self, model: Result<ModelFile, ModelError>, name: impl FnOnce(&mut ModelFile)) {
        match model {
            Ok(mut model) => {
                name(&mut model);
                self.models.push(model);
            }
            Err(ModelError::NotAModel { .. }) => {} // Nobody would expect it in the list.
            Err(problem) => self.problems.push(problem),
        }
    }
}

/// The image part of a model lies beside it under a name with this word.
fn is_projector(path: &std::path::Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.contains("mmproj")
}
