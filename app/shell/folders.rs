//! `open_models_folder`: shows the folder for models in the system's file manager.
//!
//! - The page names the folder that it shows. Only the app's own is opened: opening other paths may
//!   start programs.

use std::path::{Path, PathBuf};

use hob_config::paths;
use tauri::{AppHandle, State};
use tauri_plugin_opener::OpenerExt;

/// Where the models of this app's user belong.
pub struct ModelsFolder {
    path: PathBuf,
}

impl ModelsFolder {
    /// The folder in a data directory.
    pub fn in_dir(data_dir: &Path) -> Self {
        Self { path: paths::models_dir(data_dir) }
    }

    /// Makes the folder, which is missing until the first model is there.
    fn made(&self, shown: &str) -> Result<&Path, String> {
        if Path::new(shown) != self.path {
            return Err("only this app's folder for models is opened".to_owned());
        }
        let failed = |error| format!("cannot make {}: {error}", self.path.display());
        std::fs::create_dir_all(&self.path).map_err(failed)?;
        Ok(&self.path)
    }
}

#[tauri::command]
pub fn open_models_folder(
    app: AppHandle,
    folder: State<'_, ModelsFolder>,
    path: String,
) -> Result<(), String> {
    let path = folder.made(&path)?.to_string_lossy();
    app.opener().open_path(path, None::<&str>).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folder_for_models_is_opened_and_it_is_made() {
        let data_dir = tempfile::tempdir().unwrap();
        let folder = ModelsFolder::in_dir(data_dir.path());
        let shown = data_dir.path().join("models");
        for other in ["/etc/passwd", "/", "", "models"] {
            assert!(folder.made(other).is_err(), "{other}");
        }
        assert!(!shown.exists());
        assert_eq!(folder.made(&shown.to_string_lossy()), Ok(&*shown));
        assert!(shown.is_dir());
    }
}
