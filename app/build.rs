//! Gives Tauri the app's configuration, commands and capabilities.

fn main() {
    #[cfg(feature = "desktop")]
    desktop();
}

/// A command that is listed here can be called only where a capability allows it.
#[cfg(feature = "desktop")]
fn desktop() {
    let commands = tauri_build::AppManifest::new().commands(&[
        "request",
        "cancel",
        "app_state",
        "settings_get",
        "settings_set",
        "open_link",
        "open_models_folder",
        "notify",
        "quit",
    ]);
    let attributes = tauri_build::Attributes::new()
        .app_manifest(commands)
        .capabilities_path_pattern("./app/capabilities/*.json");
    tauri_build::try_build(attributes).expect("tauri.conf.json and app/capabilities fit together");
}
