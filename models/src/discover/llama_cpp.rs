//! The cache of llama.cpp's programs: flat, `owner_repository_file.gguf`.

use std::path::Path;

use super::{Discovery, walk};
use crate::source::Source;

pub(super) fn find(root: &Path, found: &mut Discovery) {
    found.add_files(walk::gguf_files(root), Source::LlamaCpp, |_, _| {});
}

#[cfg(test)]
mod tests {
    use super::super::{Roots, discover};
    use crate::testing::Gguf;

    #[test]
    fn shards_are_one_model_and_a_broken_file_is_a_problem() {
        let dir = tempfile::tempdir().unwrap();
        for number in 1..=2 {
            let name = format!("org_big-0000{number}-of-00002.gguf");
            Gguf::new("llama").tensor("a", 64).write(&dir.path().join(name));
        }
        Gguf::new("llama").write(&dir.path().join("lost-00002-of-00003.gguf"));
        std::fs::write(dir.path().join("broken.gguf"), "GGUFoops").unwrap();

        let found = discover(&Roots { llama_cpp: vec![dir.path().to_owned()], ..Roots::default() });
        assert_eq!(found.models.len(), 1);
        assert_eq!((found.models[0].name.as_str(), found.models[0].files.len()), ("org_big", 2));
        assert_eq!(found.models[0].weights_bytes, 512);
        let problems: Vec<_> = found.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 2);
        assert!(problems[0].contains("broken.gguf") && problems[1].contains("2 of them missing"));
    }
}
