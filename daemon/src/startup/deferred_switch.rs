//! A switch that was accepted and that only the next process can make: the engine's thread of this one does not
//! end, and keeps the store.
//!
//! - [`take`] removes the file before the switch is tried: if the process ends meanwhile, the settings before count.
//! - A damaged file, and one with a setting that this version does not know, counts as none.

use std::fs;
use std::io;
use std::path::Path;

use hob_config::{Key, paths};

use crate::json_file::JsonFile;
use crate::settings::Changes;

/// Leaves the switch to the next process. A failure is logged.
pub(super) fn leave(data_dir: &Path, changes: &Changes) {
    if changes.is_empty() {
        return;
    }
    let named = || changes.iter().map(|(key, value)| (key.name(), value)).collect::<Vec<_>>();
    JsonFile::at(paths::switch_file(data_dir)).write(named);
}

/// What the process before has left, once.
pub(super) fn take(data_dir: &Path) -> Option<Changes> {
    let path = paths::switch_file(data_dir);
    let named: Vec<(String, String)> = JsonFile::at(path.clone()).read();
    match fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            // It would be made at each start.
            tracing::warn!(path = %path.display(), %error, "the switch is not made: its file stays");
            return None;
        }
    }
    let known = |(name, value): (String, String)| Some((Key::named(&name)?, value));
    let changes: Option<Changes> = named.into_iter().map(known).collect();
    changes.filter(|changes| !changes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_taken_once() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(take(directory.path()), None);
        let changes = vec![(Key::Model, "big".to_owned()), (Key::Ctx, "auto".to_owned())];
        leave(directory.path(), &changes);
        leave(directory.path(), &Changes::new()); // Nothing was chosen: the earlier one stays.
        assert_eq!(take(directory.path()), Some(changes));
        assert_eq!(take(directory.path()), None);
    }

    #[test]
    fn a_damaged_switch_and_one_of_unknown_settings_count_as_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = paths::switch_file(directory.path());
        for text in ["[[\"model\"", r#"[["model", "big"], ["heat", "1"]]"#, "[]", "{}"] {
            fs::write(&path, text).unwrap();
            assert_eq!(take(directory.path()), None, "{text}");
            assert!(!path.exists(), "{text}");
        }
    }
}
