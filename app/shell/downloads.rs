//! Files that the page hands out: exports of chats, and nothing from elsewhere.
//!
//! - They go to where the desktop keeps downloads, under a name that is free, and the desktop says so;
//!   it says too when one could not be written.

use std::path::{Path, PathBuf};

use tauri::webview::DownloadEvent;
use tauri::{AppHandle, Manager, Runtime, Webview};
use tauri_plugin_notification::NotificationExt;

use super::words::Words;

/// More files of one name than that are no accident.
const MOST: u32 = 1000;

/// Whether a download may go on; says where to.
pub fn decide<R: Runtime>(webview: &Webview<R>, event: DownloadEvent<'_>) -> bool {
    match event {
        DownloadEvent::Requested { url, destination } if url.scheme() == "blob" => {
            let paths = webview.path();
            let dir = paths.download_dir().or_else(|_| paths.home_dir());
            let name = destination.file_name().map(PathBuf::from);
            let free =
                dir.ok().zip(name).and_then(|(dir, name)| free_name(&dir, &name, Path::exists));
            let Some(free) = free else {
                tell(webview.app_handle(), destination, false);
                return false;
            };
            *destination = free;
            true
        }
        DownloadEvent::Requested { .. } => false,
        DownloadEvent::Finished { path, success, .. } => {
            tell(webview.app_handle(), &path.unwrap_or_default(), success);
            true
        }
        _ => true,
    }
}

/// The page cannot know where the file went.
fn tell<R: Runtime>(app: &AppHandle<R>, path: &Path, success: bool) {
    let words = app.state::<Words>();
    let title = if success { &words.saved } else { &words.not_saved };
    let notice = app.notification().builder().title(title).body(path.display().to_string());
    if let Err(error) = notice.show() {
        tracing::debug!(%error, "the desktop shows no notices");
    }
}

/// `name`, or the first of `name (1)`, `name (2)`, … that nobody has in `dir`.
fn free_name(dir: &Path, name: &Path, is_taken: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let stem = name.file_stem()?.to_string_lossy().into_owned();
    let end = name.extension().map(|it| format!(".{}", it.to_string_lossy())).unwrap_or_default();
    let numbered = (1..MOST).map(|number| format!("{stem} ({number}){end}"));
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
}
