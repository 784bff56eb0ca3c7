//! The cache of Hugging Face's libraries: `models--owner--name/snapshots/<revision>/…`, with links
//! to blobs; `refs/main` names the current revision.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Discovery, walk};
use crate::source::Source;

pub(super) fn find(root: &Path, found: &mut Discovery) {
    for repository in walk::entries(root) {
        let directory = repository.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(id) = directory.strip_prefix("models--") else { continue };
        let name = id.replacen("--", "/", 1);
        let files = revision(&repository).map(|dir| walk::gguf_files(&dir)).unwrap_or_default();
        found.add_files(files, Source::HuggingFace, |model, group| {
            model.aliases.push(format!("{name}/{}", group.stem));
            model.aliases.push(name.clone());
        });
    }
}

/// The revision that `refs/main` names, or else the last one.
fn revision(repository: &Path) -> Option<PathBuf> {
    let snapshots = repository.join("snapshots");
    let reference = fs::read_to_string(repository.join("refs/main")).unwrap_or_default();
    let main = reference.trim();
    // The name comes from a file, and must not lead out of the directory.
    let is_name = !main.is_empty() && main.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let current = snapshots.join(main);
    if is_name && current.is_dir() { Some(current) } else { walk::entries(&snapshots).pop() }
}

#[cfg(test)]
mod tests {
    use super::super::{Roots, discover};
    use super::*;
    use crate::testing::Gguf;

    #[test]
    fn the_current_revision_is_listed_under_the_repositorys_name() {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("models--org--name-GGUF");
        Gguf::new("qwen3").write(&repository.join("snapshots/aaa/m-q4.gguf"));
        Gguf::new("qwen3").write(&repository.join("snapshots/zzz/m-q4.gguf"));
        Gguf::new("qwen3").write(&dir.path().join("datasets--org--x/snapshots/a/m.gguf"));
        fs::create_dir_all(repository.join("refs")).unwrap();
        fs::write(repository.join("refs/main"), "aaa\n").unwrap();

        let models = discovered(dir.path()).models;
        assert_eq!(models.len(), 1);
        assert!(models[0].path.ends_with("aaa/m-q4.gguf"));
        assert!(models[0].aliases.contains(&"org/name-GGUF/m-q4".to_owned()));

        fs::write(repository.join("refs/main"), "../../elsewhere").unwrap();
        assert!(discovered(dir.path()).models[0].path.ends_with("zzz/m-q4.gguf"));
    }

    #[test]
    fn links_to_blobs_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("models--org--name");
        Gguf::new("qwen3").write(&repository.join("blobs/abc"));
        let snapshot = repository.join("snapshots/r");
        fs::create_dir_all(&snapshot).unwrap();
        std::os::unix::fs::symlink("../../blobs/abc", snapshot.join("m.gguf")).unwrap();
        assert_eq!(discovered(dir.path()).models[0].name, "m");
    }

    fn discovered(root: &Path) -> Discovery {
        discover(&Roots { hugging_face: vec![root.to_owned()], ..Roots::default() })
    }
}
