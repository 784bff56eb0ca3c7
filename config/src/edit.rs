//! Writes one setting into the configuration file.
//!
//! - Comments, order and spelling of other settings stay.
//! - Readers see the old file or the new one, each whole; a symbolic link stays one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Value};

use crate::key::Key;

/// Why a setting could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error("{} is not valid TOML: {problem}", path.display())]
    Syntax { path: PathBuf, problem: String },
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Sets `key` to a text in the file at `path`, which need not exist.
pub fn set_text(path: &Path, key: Key, value: &str) -> Result<(), EditError> {
    let failed = |source| EditError::Io { path: path.to_owned(), source };
    // Replaces the file that a link points to, not the link.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let text = match fs::read_to_string(&real) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let edited = with_text(&text, key, value).map_err(|problem| {
        let path = path.to_owned();
        EditError::Syntax { path, problem }
    })?;
    replace(&real, &edited).map_err(failed)
}

fn with_text(text: &str, key: Key, value: &str) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| error.to_string().trim_end().to_owned())?;
    match document.get_mut(key.name()).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = Value::from(value);
            *old.decor_mut() = decor;
        }
        None => {
            document.insert(key.name(), toml_edit::value(value));
        }
    }
    Ok(document.to_string())
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(name);
    let written = write_like(path, &temporary, text).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The new file has the permissions of the old one.
fn write_like(path: &Path, temporary: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::create(temporary)?;
    if let Ok(facts) = fs::metadata(path) {
        file.set_permissions(facts.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str) -> String {
        with_text(text, Key::Model, "/m/a.gguf").unwrap()
    }

    #[test]
    fn the_rest_of_the_file_stays_as_it_was() {
        let text =
            "# mine\nmodel = 'old'  # small\nctx = 0x400\n\n[slots]\n# a secret\nencrypt = true\n";
        let expected = text.replace("'old'", "\"/m/a.gguf\"");
        assert_eq!(edited(text), expected);
    }

    #[test]
    fn a_new_setting_belongs_to_no_table() {
        let text = edited("ctx = 1024\n\n[slots]\nencrypt = true\n");
        assert!(text.find("model = ").unwrap() < text.find("[slots]").unwrap(), "{text}");
        assert_eq!(edited(""), "model = \"/m/a.gguf\"\n");
    }

    #[test]
    fn a_missing_file_is_created_and_invalid_toml_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hob/hob.toml");
        set_text(&file, Key::Model, "a \"b\"").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "model = 'a \"b\"'\n");
        set_text(&file, Key::Model, "bundled").unwrap();
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);

        fs::write(&file, "model =").unwrap();
        let error = set_text(&file, Key::Model, "a").unwrap_err().to_string();
        assert!(error.contains("hob.toml is not valid TOML"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "model =");
    }

    #[test]
    fn a_link_stays_a_link_and_a_private_file_private() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let (real, link) =
            (directory.path().join("dotfiles.toml"), directory.path().join("hob.toml"));
        fs::write(&real, "ctx = 1024\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&real, &link).unwrap();
        set_text(&link, Key::Model, "a").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "ctx = 1024\nmodel = \"a\"\n");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
