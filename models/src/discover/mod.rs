//! Finds the models of Hob and other programs. One file a program.
//!
//! - Reads only, and never outside the given roots: tests build a tree, `main` passes
//!   [`Roots::from_env`].
//! - Every listed model has a valid header and all its shards; the others are problems.
//! - The same roots always give the same order: by source, then by name.
//! - To add a source, add a file here, a root to [`Roots`] and a variant to [`Source`].

mod hugging_face;
mod llama_cpp;
mod lm_studio;
mod ollama;
mod roots;
mod walk;

use std::path::{Path, PathBuf};

pub use roots::Roots;

use crate::error::ModelError;
use crate::model::ModelFile;
use crate::published::alias_of;
use crate::shards::{self, Group};
use crate::source::Source;

#[derive(Debug, Default)]
pub struct Discovery {
    /// Models that can be loaded.
    pub models: Vec<ModelFile>,
    /// Why other files that look like models cannot be loaded.
    pub problems: Vec<ModelError>,
}

/// Searches below all roots.
pub fn discover(roots: &Roots) -> Discovery {
    let mut found = Discovery::default();
    roots.own.iter().for_each(|root| found.add_own(root));
    roots.ollama.iter().for_each(|root| ollama::find(root, &mut found));
    roots.lm_studio.iter().for_each(|root| lm_studio::find(root, &mut found));
    roots.hugging_face.iter().for_each(|root| hugging_face::find(root, &mut found));
    roots.llama_cpp.iter().for_each(|root| llama_cpp::find(root, &mut found));
    found.models.sort_by(|a, b| (a.source, &a.name, &a.path).cmp(&(b.source, &b.name, &b.path)));
    found.models.dedup_by(|a, b| a.source == b.source && a.name == b.name && a.is_same_file(b));
    found
}

impl Discovery {
    /// Adds the models below a root of Hob's own whose names no earlier root has.
    fn add_own(&mut self, root: &Path) {
        let mut below = Self::default();
        below.add_files(walk::gguf_files(root), Source::Own, |model, _| {
            model.aliases.extend(alias_of(&model.name));
        });
        below.models.retain(|model| self.models.iter().all(|known| known.name != model.name));
        self.models.append(&mut below.models);
        self.problems.append(&mut below.problems);
    }

    /// Adds the models that these files are shards of; `name` adds aliases to each.
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
            Err(ModelError::NotAModel { .. }) => {} // Not a problem: it was not meant as a model.
            Err(problem) => self.problems.push(problem),
        }
    }
}

/// The image projector of a model is a file beside it with this word in its name.
fn is_projector(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.contains("mmproj")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Gguf;

    #[test]
    fn a_model_of_an_earlier_root_hides_one_with_its_name() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |root: &tempfile::TempDir, name: &str| root.path().join(name);
        for file in [path(&first, "a.gguf"), path(&second, "a.gguf"), path(&second, "b.gguf")] {
            Gguf::new("llama").tensor("a", 64).write(&file);
        }
        let own = [&first, &second].map(|root| root.path().to_owned()).to_vec();
        let found = discover(&Roots { own, ..Roots::default() });
        let paths: Vec<&Path> = found.models.iter().map(|model| model.path.as_path()).collect();
        assert_eq!(paths, [path(&first, "a.gguf"), path(&second, "b.gguf")]);
    }

    #[cfg(target_os = "linux")] // Other systems refuse such a name.
    #[test]
    fn a_model_that_no_setting_can_name_is_a_problem() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;

        let root = tempfile::tempdir().unwrap();
        let path = |name: &[u8]| root.path().join(OsStr::from_bytes(name));
        Gguf::new("llama").tensor("a", 64).write(&path(b"caf\xe9.gguf"));
        Gguf::new("llama").tensor("a", 64).write(&path("caf\u{e9}.gguf".as_bytes()));
        let found = discover(&Roots { own: vec![root.path().to_owned()], ..Roots::default() });
        let names: Vec<_> = found.models.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["caf\u{e9}"]);
        let [problem] = &found.problems[..] else { panic!("{:?}", found.problems) };
        assert!(problem.to_string().contains("rename the file"), "{problem}");
    }
}
