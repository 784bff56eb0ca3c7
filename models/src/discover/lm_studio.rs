//! LM Studio: `publisher/model/file.gguf`.

use std::path::Path;

use super::{Discovery, walk};
use crate::source::Source;

pub(super) fn find(root: &Path, found: &mut Discovery) {
    found.add_files(walk::gguf_files(root), Source::LmStudio, |model, group| {
        let inside = model.path.parent().and_then(|dir| dir.strip_prefix(root).ok());
        let components = inside.into_iter().flat_map(Path::components);
        let parts: Vec<_> = components.map(|part| part.as_os_str().to_string_lossy()).collect();
        model.aliases.push([&parts[..], &[group.stem.as_str().into()]].concat().join("/"));
    });
}

#[cfg(test)]
mod tests {
    use super::super::{Roots, discover};
    use crate::testing::Gguf;

    #[test]
    fn models_are_found_and_projectors_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("org/Gemma-GGUF");
        Gguf::new("gemma3").write(&model.join("gemma-q4.gguf"));
        Gguf::new("clip").write(&model.join("mmproj-gemma.gguf"));
        Gguf::new("clip").write(&model.join("vision.gguf"));
        std::fs::write(model.join("README.md"), "").unwrap();

        let roots = Roots { lm_studio: vec![dir.path().to_owned()], ..Roots::default() };
        let found = discover(&roots);
        assert_eq!(found.models.len(), 1);
        assert_eq!(found.models[0].name, "gemma-q4");
        assert_eq!(found.models[0].aliases, ["org/Gemma-GGUF/gemma-q4"]);
        assert!(found.problems.is_empty());
    }
}
