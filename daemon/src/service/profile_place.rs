//! A file that a profile names: whether it is the profile's own, and what is to be written there.
//!
//! - Own is what lies inside the profiles directory, wherever links lead, and is no profile itself.

use std::path::{Component, Path, PathBuf};

use super::profiles::read_bounded;

/// The longest path that is written; every file system has names of this length.
const PATH_BYTES: usize = 200;

/// A file that a draft names.
pub struct Place<'a> {
    path: &'a str,
    file: PathBuf,
    inside: Result<(), String>,
    /// Whether the profile names it already.
    is_known: bool,
    text: Option<String>,
}

impl<'a> Place<'a> {
    /// The file of this path, which may not be there. `known` is its text if the profile names it
    /// already; `Some(None)`: it cannot be read.
    pub fn of(directory: &Path, path: &'a str, known: Option<&Option<String>>) -> Self {
        let (file, inside) = (directory.join(path), inside(directory, path));
        let read = || read_bounded(&file).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = match known {
            Some(text) => text.clone(),
            None => inside.is_ok().then(read).flatten(),
        };
        Self { path, is_known: known.is_some(), inside, text, file }
    }

    /// What is to be written, if anything; an error when it must not be.
    pub fn write(self, wanted: Option<&str>) -> Result<Option<(PathBuf, String)>, String> {
        let same = |wanted: &str| self.text.as_ref().is_some_and(|it| it.trim() == wanted.trim());
        let is_same = wanted.is_none_or(same);
        if is_same && self.is_known {
            return Ok(None); // Wherever it lies.
        }
        self.inside?;
        let Some(wanted) = wanted.filter(|_| !is_same) else { return Ok(None) };
        if !self.is_known && self.file.symlink_metadata().is_ok() {
            return Err(format!(
                "`{}` is there already and does not belong to this profile: choose another name",
                self.path
            ));
        }
        Ok(Some((self.file, format!("{}\n", wanted.trim_end()))))
    }
}

/// Whether a file that a profile names may be written from here.
pub fn is_editable(directory: &Path, path: &str) -> bool {
    inside(directory, path).is_ok()
}

/// Whether a path leads to a file, there or not, that is a profile's own.
fn inside(directory: &Path, path: &str) -> Result<(), String> {
    let outside = || {
        format!(
            "`{path}` does not lie in the profiles directory: edit it where it lies, or choose \
                 a plain name"
        )
    };
    if path.len() > PATH_BYTES || path.contains(char::is_control) {
        return Err("that is no name for a file: choose a short one, such as rules.md".to_owned());
    }
    let relative = Path::new(path);
    let mut parts = relative.components().peekable();
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.to_string_lossy().starts_with('.'),
        _ => false,
    };
    if parts.peek().is_none() || path.contains('\\') || !parts.all(is_plain) {
        return Err(outside());
    }
    if relative.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
        return Err(format!("`{path}` would be a profile itself: choose another ending"));
    }
    let file = directory.join(relative);
    let is_link = file.symlink_metadata().is_ok_and(|facts| !facts.is_file());
    let parent = file.parent().unwrap_or(directory);
    // A directory that is not there yet is made for the profile itself, and for nothing below it.
    let escapes = match (parent.canonicalize(), directory.canonicalize()) {
        (Ok(parent), Ok(directory)) => !parent.starts_with(directory),
        _ => parent != directory,
    };
    if is_link || escapes { Err(outside()) } else { Ok(()) }
}
