//! Saves files that the page creates, such as exported chats. Other downloads are refused.
//!
//! - Files go to the desktop's download directory under a free name. A notification tells the path, or
//!   that the file could not be written.
//! - The web view creates a file some time after it asked for the name: until the download has finished, no other
//!   one gets it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tauri::webview::DownloadEvent;
use tauri::{AppHandle, Manager, Runtime, Webview};
use tauri_plugin_notification::NotificationExt;

use super::strings::Strings;

const MAX_FILES_OF_ONE_NAME: u32 = 1000;

/// Where running downloads go.
static RESERVED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Sets the destination of a download; `false` refuses it.
pub fn decide<R: Runtime>(webview: &Webview<R>, event: DownloadEvent<'_>) -> bool {
    match event {
        DownloadEvent::Requested { url, destination } if url.scheme() == "blob" => {
            let paths = webview.path();
            let dir = paths.download_dir().or_else(|_| paths.home_dir());
            let name = destination.file_name().map(PathBuf::from);
            let mut reserved = RESERVED.lock();
            let free = dir
                .ok()
                .zip(name)
                .and_then(|(dir, name)| reserve(&dir, &name, &mut reserved, Path::exists));
            drop(reserved);
            let Some(free) = free else {
                notify(webview.app_handle(), destination, false);
                return false;
            };
            *destination = free;
            true
        }
        DownloadEvent::Requested { .. } => false,
        DownloadEvent::Finished { path, success, .. } => {
            let path = path.unwrap_or_default();
            RESERVED.lock().remove(&path);
            notify(webview.app_handle(), &path, success);
            true
        }
        _ => true,
    }
}

fn notify<R: Runtime>(app: &AppHandle<R>, path: &Path, success: bool) {
    let strings = app.state::<Strings>();
    let title = if success { &strings.saved } else { &strings.not_saved };
    let notice = app.notification().builder().title(title).body(path.display().to_string());
    if let Err(error) = notice.show() {
        tracing::debug!(%error, "the desktop shows no notifications");
    }
}

/// The path of a [`free_name`] that no running download has.
fn reserve(
    dir: &Path,
    name: &Path,
    reserved: &mut BTreeSet<PathBuf>,
    exists: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let free = free_name(dir, name, |path| reserved.contains(path) || exists(path))?;
    reserved.insert(free.clone());
    Some(free)
}

/// `name`, or the first of `name (1)`, `name (2)`, … that does not exist in `dir`.
fn free_name(dir: &Path, name: &Path, is_taken: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let stem = name.file_stem()?.to_string_lossy().into_owned();
    let end = name.extension().map(|it| format!(".{}", it.to_string_lossy())).unwrap_or_default();
    let numbered = (1..MAX_FILES_OF_ONE_NAME).map(|number| format!("{stem} ({number}){end}"));
    let names = std::iter::once(format!("{stem}{end}")).chain(numbered);
    names.map(|name| dir.join(name)).find(|path| !is_taken(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_overwritten() {
        let free = |name: &str, taken: &[&str]| {
            let is_taken = |path: &Path| taken.iter().any(|it| path == Path::new("/d").join(it));
            free_name(Path::new("/d"), Path::new(name), is_taken).unwrap()
        };
        assert_eq!(free("chat.md", &[]), Path::new("/d/chat.md"));
        assert_eq!(free("chat.md", &["chat.md", "chat (1).md"]), Path::new("/d/chat (2).md"));
        assert_eq!(free("chat", &["chat"]), Path::new("/d/chat (1)"));
        assert_eq!(free_name(Path::new("/d"), Path::new("chat.md"), |_| true), None);
    }

    #[test]
    fn two_downloads_at_a_time_have_two_files() {
        let mut reserved = BTreeSet::new();
        let mut next = || {
            let (dir, name) = (Path::new("/d"), Path::new("chat.md"));
            reserve(dir, name, &mut reserved, |_| false).unwrap()
        };
        assert_eq!((next(), next()), ("/d/chat.md".into(), "/d/chat (1).md".into()));
        reserved.remove(Path::new("/d/chat.md"));
        let again = reserve(Path::new("/d"), Path::new("chat.md"), &mut reserved, |_| false);
        assert_eq!(again, Some("/d/chat.md".into()));
    }
}
