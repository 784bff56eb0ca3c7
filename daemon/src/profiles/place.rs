//! A file that a profile names: whether an edit may write it, and what.
//!
//! - Writable is a file inside the profiles directory, links resolved, that is not itself a
//!   profile.

use std::path::{Component, Path, PathBuf};

use super::load::read_bounded;

/// Every file system supports names of this length.
const MAX_PATH_BYTES: usize = 200;

/// A file that an edit names.
pub struct FilePlace<'a> {
    path: &'a str,
    file: PathBuf,
    inside: Result<(), String>,
    /// Whether the saved profile names it.
    is_known: bool,
    text: Option<String>,
}

impl<'a> FilePlace<'a> {
    /// `known`: its text, if the saved profile names it; `Some(None)`: unreadable.
    pub fn of(directory: &Path, path: &'a str, known: Option<&Option<String>>) -> Self {
        let (file, inside) = (directory.join(path), inside(directory, path));
        let read = || read_bounded(&file).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = match known {
            Some(text) => text.clone(),
            None => inside.is_ok().then(read).flatten(),
        };
        Self { path, is_known: known.is_some(), inside, text, file }
    }

    /// The file and text to write, if the text changes.
    ///
    /// # Errors
    /// When the file must not be written.
    pub fn write(self, wanted: Option<&str>) -> Result<Option<(PathBuf, String)>, String> {
        let same = |wanted: &str| self.text.as_ref().is_some_and(|it| it.trim() == wanted.trim());
        let is_same = wanted.is_none_or(same);
        if is_same && self.is_known {
            return Ok(None); // Unchanged, so it may be anywhere.
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

/// Whether an edit may write the file of this path.
pub fn is_editable(directory: &Path, path: &str) -> bool {
    inside(directory, path).is_ok()
}

/// `Err`: why the path does not lead to a file that an edit may write.
fn inside(directory: &Path, path: &str) -> Result<(), String> {
    let outside = || {
        format!("`{path}` is outside the profiles directory: edit it there, or choose a plain name")
    };
    if path.len() > MAX_PATH_BYTES || path.contains(char::is_control) {
        return Err("this is not a file name: choose a short one, such as rules.md".to_owned());
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
    // A missing profiles directory is created for the profile itself, but no directories below it.
    let escapes = match (parent.canonicalize(), directory.canonicalize()) {
        (Ok(parent), Ok(directory)) => !parent.starts_with(directory),
        _ => parent != directory,
    };
    if is_link || escapes { Err(outside()) } else { Ok(()) }
}
