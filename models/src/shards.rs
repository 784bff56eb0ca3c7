//! Groups the files of split models: `name-00001-of-00003.gguf`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::ending::without_ending;

/// The files of one model, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The file name without number and extension.
    pub stem: String,
    /// The existing files; the first is the one to load.
    pub files: Vec<PathBuf>,
    /// Number of files that the model should have.
    pub total: u32,
    /// Numbers of the missing files, from 1.
    pub missing: Vec<u32>,
}

/// Groups files into models, ordered by the path of their first file.
pub fn group(files: impl IntoIterator<Item = PathBuf>) -> Vec<Group> {
    let mut groups = BTreeMap::<(PathBuf, u32), BTreeMap<u32, PathBuf>>::new();
    for path in files {
        let (stem, number, total) = shard_of(&path);
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        groups.entry((dir.join(stem), total)).or_default().insert(number, path);
    }
    groups
        .into_iter()
        .map(|((stem, total), files)| Group {
            stem: stem.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            missing: (1..=total).filter(|number| !files.contains_key(number)).collect(),
            files: files.into_values().collect(),
            total,
        })
        .collect()
}

/// The model that the file at `path` is a part of.
pub fn siblings(path: &Path) -> Group {
    let (stem, _, total) = shard_of(path);
    let paths = (1..=total).map(|number| match total {
        1 => path.to_owned(),
        _ => path.with_file_name(format!("{stem}-{number:05}-of-{total:05}.gguf")),
    });
    let (files, missing): (Vec<_>, Vec<_>) =
        (1..).zip(paths).partition(|(_, path)| total == 1 || path.exists());
    Group {
        stem,
        files: files.into_iter().map(|(_, path)| path).collect(),
        total,
        missing: missing.into_iter().map(|(number, _)| number).collect(),
    }
}

/// Stem, number and total; a file that is not a shard is number 1 of 1.
fn shard_of(path: &Path) -> (String, u32, u32) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = without_ending(&name);
    match numbers(stem) {
        Some((stem, number, total)) => (stem.to_owned(), number, total),
        None => (stem.to_owned(), 1, 1),
    }
}

fn numbers(stem: &str) -> Option<(&str, u32, u32)> {
    let (rest, total) = stem.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(number) || !digits(total) {
        return None;
    }
    let (number, total) = (number.parse().ok()?, total.parse().ok()?);
    (1..=total).contains(&number).then_some((stem, number, total)).filter(|_| total <= 9_999)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(names: &[&str]) -> Vec<Group> {
        group(names.iter().map(PathBuf::from))
    }

    #[test]
    fn shards_are_one_model() {
        let groups = grouped(&["m/b-00002-of-00002.gguf", "m/a.gguf", "m/b-00001-of-00002.gguf"]);
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[1].stem.as_str(), groups[1].total), ("b", 2));
        assert_eq!(groups[1].files[0], Path::new("m/b-00001-of-00002.gguf"));
        assert!(groups[1].missing.is_empty());
    }

    #[test]
    fn a_missing_shard_is_reported() {
        let groups = grouped(&["b-00003-of-00003.gguf"]);
        assert_eq!(groups[0].missing, [1, 2]);
        let group = siblings(Path::new("/nowhere/b-00001-of-00002.gguf"));
        assert_eq!((group.total, group.missing), (2, vec![1, 2]));
    }

    #[test]
    fn names_that_only_resemble_shards_are_models_of_their_own() {
        let names = ["a-1-of-2.gguf", "a-00003-of-00002.gguf", "a-00000-of-00001.gguf", "of.gguf"];
        assert!(grouped(&names).iter().all(|group| group.total == 1));
    }
}
