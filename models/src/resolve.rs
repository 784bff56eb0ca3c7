//! Resolves a path or a name to a model.
//!
//! - A text is a path when it is absolute, exists, or ends in `.gguf` and has a separator.
//! - Names are compared without case. A name of several different files is refused; links to one
//!   file are not different.

use std::path::Path;

use crate::discover::Discovery;
use crate::ending::{is_gguf, without_ending};
use crate::error::ModelError;
use crate::model::ModelFile;

/// The model with this name or path. Calls `discover` only for a name.
pub fn resolve(
    name_or_path: &str,
    discover: impl FnOnce() -> Discovery,
) -> Result<ModelFile, ModelError> {
    let path = Path::new(name_or_path);
    let is_gguf = is_gguf(path);
    // `qwen3/4b` may be a name too: a missing path with a separator is looked up first.
    if path.is_file() || (is_gguf && path.components().count() > 1) || path.is_absolute() {
        return ModelFile::open(path);
    }
    match by_name(name_or_path, discover()) {
        Err(ModelError::Unknown { suggestion: None, .. }) if is_gguf => ModelFile::open(path),
        other => other,
    }
}

fn by_name(name: &str, discovery: Discovery) -> Result<ModelFile, ModelError> {
    let wanted = without_ending(name);
    let (mut found, others): (Vec<_>, Vec<_>) =
        discovery.models.into_iter().partition(|model| names(model).any(|n| same(n, wanted)));
    if found.is_empty() {
        let suggestion = nearest(wanted, &others);
        return Err(ModelError::Unknown { name: name.to_owned(), suggestion });
    }
    let first = found.remove(0);
    if found.iter().all(|other| other.is_same_file(&first)) {
        return Ok(first);
    }
    let paths = [first].into_iter().chain(found).map(|model| model.path).collect();
    Err(ModelError::Ambiguous { name: name.to_owned(), paths })
}

fn names(model: &ModelFile) -> impl Iterator<Item = &str> {
    [&model.name].into_iter().chain(&model.aliases).map(String::as_str)
}

fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

fn nearest(wanted: &str, models: &[ModelFile]) -> Option<String> {
    let wanted = wanted.to_lowercase();
    models
        .iter()
        .flat_map(names)
        .map(|name| (strsim::jaro_winkler(&name.to_lowercase(), &wanted), name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::discover::{Roots, discover};
    use crate::testing::Gguf;

    #[test]
    fn a_path_is_opened_without_discovery() {
        let path = crate::testing::asset("hob-tiny-f16.gguf");
        let unused = || panic!("a path needs no discovery");
        let model = resolve(&path.to_string_lossy(), unused).unwrap();
        assert_eq!(model.name, "hob-tiny-f16");
        let error = resolve("/nowhere/a.gguf", unused).unwrap_err();
        assert!(matches!(error, ModelError::Missing { .. }), "{error}");
    }

    #[test]
    fn a_name_is_found_without_case_and_with_its_extension() {
        let models = ModelDir::new(&["Qwen3-4B-Q4_K_M"]);
        assert_eq!(models.resolve("qwen3-4b-q4_k_m").unwrap().name, "Qwen3-4B-Q4_K_M");
        assert_eq!(models.resolve("Qwen3-4B-Q4_K_M.gguf").unwrap().name, "Qwen3-4B-Q4_K_M");
    }

    #[test]
    fn a_file_whose_ending_is_in_capitals_is_found_by_its_name_and_by_its_path() {
        let models = ModelDir::new(&["other"]);
        let path = models.0.path().join("QWEN.GGUF");
        Gguf::new("llama").write(&path);
        let unused = || panic!("a path needs no discovery");
        let by_path = resolve(path.to_str().unwrap(), unused).unwrap();
        let by_name = ["qwen", "QWEN.GGUF", "qwen.gguf"].map(|name| models.resolve(name).unwrap());
        for model in [by_path].into_iter().chain(by_name) {
            assert_eq!((model.name.as_str(), &model.path), ("QWEN", &path));
        }
    }

    #[test]
    fn the_published_model_is_found_by_its_alias_and_says_how_it_is_fetched() {
        let models = ModelDir::new(&["SmolLM2-135M-Instruct.Q4_1", "other"]);
        assert_eq!(models.resolve("SmolLM2").unwrap().name, "SmolLM2-135M-Instruct.Q4_1");
        let error = ModelDir::new(&["smollm"]).resolve("smollm2").unwrap_err().to_string();
        assert_eq!(error, "no model is named `smollm2`; `cargo xtask model` fetches it");
    }

    #[test]
    fn a_similar_name_is_suggested() {
        let models = ModelDir::new(&["Qwen3-4B-Q4_K_M", "gemma-3-1b"]);
        let error = models.resolve("qwen3-4b").unwrap_err().to_string();
        assert!(error.contains("did you mean `Qwen3-4B-Q4_K_M`"), "{error}");
        let error = models.resolve("zzz").unwrap_err().to_string();
        assert!(error.contains("hob models"), "{error}");
    }

    #[test]
    fn a_name_of_two_different_files_is_refused() {
        let models = ModelDir::new(&["one/same", "two/same"]);
        let error = models.resolve("same").unwrap_err();
        assert!(matches!(&error, ModelError::Ambiguous { paths, .. } if paths.len() == 2));
    }

    struct ModelDir(tempfile::TempDir);

    impl ModelDir {
        fn new(names: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in names {
                Gguf::new("llama").write(&dir.path().join(format!("{name}.gguf")));
            }
            Self(dir)
        }

        fn resolve(&self, name: &str) -> Result<ModelFile, ModelError> {
            let own: Vec<PathBuf> = vec![self.0.path().to_owned()];
            resolve(name, || discover(&Roots { own, ..Roots::default() }))
        }
    }
}
