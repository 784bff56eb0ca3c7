//! The bundles of the desktop app, by Tauri's own tool.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use super::Portable;
use crate::command::{Failure, Line};
use crate::gpu::Gpu;

/// How Tauri's own tool may be installed: by cargo, or npm's `@tauri-apps/cli`, for all or for this project.
const TOOLS: [&str; 3] = ["cargo tauri", "tauri", "npx --no-install tauri"];

/// The command of Tauri's own tool.
///
/// # Errors
/// Without one of major version 2.
pub fn tool() -> Result<&'static str, Failure> {
    usable(|tool| {
        let output = Line::new(tool).arg("--version").command().output().ok()?;
        String::from_utf8(output.stdout).ok()
    })
    .ok_or_else(|| {
        Failure::new(
            "Tauri's own tool is missing: `cargo tauri` or npm's `tauri`, of major version 2",
            "run `cargo install --locked tauri-cli --version '^2'`, or `npm install --global \
             @tauri-apps/cli@2`; then try again. `cargo xtask bundle --headless` makes the archive with hobd \
             and hob, and needs no such tool",
        )
    })
}

/// The first tool whose version is right.
fn usable(version: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    TOOLS.into_iter().find(|tool| version(tool).is_some_and(|version| is_major_2(&version)))
}

/// Makes the bundles of this system with `tool` and prints their paths.
pub fn make(build: Portable, tool: &str) -> Result<(), Failure> {
    let files = files(build);
    let tauri = |line: &str| build.line(&format!("{tool} {line}")).arg("--config").arg(&files);
    tauri(&format!("build --no-bundle --features {}", build.features(""))).run()?;
    let begun = SystemTime::now();
    let bundles = Path::new(&build.target()).join("release/bundle");
    if cfg!(target_os = "macos") {
        tauri("bundle --bundles app,dmg").run()?;
        return print_bundles(&bundles, begun);
    }
    tauri("bundle --bundles deb").run()?;
    let made = tauri("bundle --bundles appimage").run();
    print_bundles(&bundles, begun)?;
    made.map_err(|failure| {
        failure.with_remedy(
            "the .deb above is complete. For an AppImage, Tauri fetches tools from GitHub: see its \
             output above, and try again with a network",
        )
    })
}

/// The part of Tauri's configuration that adds the libraries and, to a package, hobd and hob.
fn files(build: Portable) -> String {
    let root = std::env::current_dir().unwrap_or_default().join(build.tree());
    let path = |part: &str| root.join(part).display().to_string();
    let libraries = serde_json::json!({"/usr/lib/hob": path("lib/hob")});
    let mut package = libraries.clone();
    for program in ["hobd", "hob"] {
        package[format!("/usr/bin/{program}")] = path(&format!("bin/{program}")).into();
    }
    // Without it, the processor computes: so not one that the package depends on.
    let recommends: &[&str] = if build.gpu == Some(Gpu::Vulkan) { &["libvulkan1"] } else { &[] };
    let bundle = serde_json::json!({
        "linux": {
            "deb": {"files": package, "recommends": recommends},
            "appimage": {"files": libraries},
        },
        "macOS": {"files": {"lib/hob": path("lib/hob")}},
    });
    serde_json::json!({ "bundle": bundle }).to_string()
}

fn is_major_2(version: &str) -> bool {
    version.trim().strip_prefix("tauri-cli ").is_some_and(|version| version.starts_with("2."))
}

/// Prints those of `bundles` that were made since `begun`.
fn print_bundles(bundles: &Path, begun: SystemTime) -> Result<(), Failure> {
    let unreadable =
        |error| Failure::new(format!("cannot read {}: {error}", bundles.display()), "try again");
    for path in made_since(bundles, begun).map_err(unreadable)? {
        println!("made {}", path.display());
    }
    Ok(())
}

/// The new bundles in `dir`, which has a directory for each kind and may have older bundles.
fn made_since(dir: &Path, begun: SystemTime) -> io::Result<Vec<PathBuf>> {
    let kinds = fs::read_dir(dir)?.flatten();
    let files = kinds.flat_map(|kind| fs::read_dir(kind.path()).into_iter().flatten()).flatten();
    let is_bundle = |path: &Path| {
        let end = path.extension().unwrap_or_default();
        ["deb", "AppImage", "dmg", "app"].iter().any(|kind| end == *kind)
    };
    let is_new =
        |path: &Path| fs::metadata(path).and_then(|it| it.modified()).is_ok_and(|it| it >= begun);
    Ok(files.map(|file| file.path()).filter(|path| is_bundle(path) && is_new(path)).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_major_version_2_of_the_tool_is_accepted() {
        assert!(is_major_2("tauri-cli 2.12.4\n"));
        assert!(!is_major_2("tauri-cli 3.0.0-alpha.5\n"));
        assert!(!is_major_2(""));
    }

    #[test]
    fn npms_tool_is_used_where_cargo_has_none() {
        let versions = |known: &'static [(&str, &str)]| {
            usable(|tool| known.iter().find(|it| it.0 == tool).map(|it| it.1.to_owned()))
        };
        assert_eq!(versions(&[]), None);
        assert_eq!(versions(&[("cargo tauri", "tauri-cli 2.9.1\n")]), Some("cargo tauri"));
        let old =
            [("cargo tauri", "tauri-cli 1.6.0"), ("npx --no-install tauri", "tauri-cli 2.9.1")];
        assert_eq!(
            usable(|tool| old.iter().find(|it| it.0 == tool).map(|it| it.1.to_owned())),
            Some("npx --no-install tauri")
        );
    }

    #[test]
    fn a_package_recommends_the_loader_of_the_devices_that_it_is_for() {
        let debian = |gpu| {
            let config = files(Portable { gpu });
            let config: serde_json::Value = serde_json::from_str(&config).unwrap();
            config["bundle"]["linux"]["deb"].clone()
        };
        assert_eq!(debian(Some(Gpu::Vulkan))["recommends"], serde_json::json!(["libvulkan1"]));
        assert_eq!(debian(None)["recommends"], serde_json::json!([]));
        let libraries = debian(Some(Gpu::Cuda))["files"]["/usr/lib/hob"].clone();
        assert!(libraries.as_str().unwrap().ends_with("target/portable-cuda/tree/lib/hob"));
    }

    /// Without it, macOS ends a program that opens the microphone.
    #[test]
    fn macos_gets_a_reason_for_the_microphone() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let list = fs::read_to_string(root.join("Info.plist")).unwrap();
        assert!(list.contains("<key>NSMicrophoneUsageDescription</key>"), "{list}");
    }

    #[test]
    fn only_new_bundles_are_listed() {
        let dir = std::env::temp_dir().join(format!("hob-xtask-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir(dir.join("deb")).unwrap();
        let old = fs::File::create(dir.join("deb/hob_1.deb")).unwrap();
        let now = SystemTime::now() - Duration::from_secs(60);
        old.set_modified(now - Duration::from_secs(1)).unwrap();
        for new in ["deb/hob_2.deb", "deb/control.tar.gz", "share.deb"] {
            fs::write(dir.join(new), "").unwrap();
        }
        let made = made_since(&dir, now).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(made, [dir.join("deb/hob_2.deb")]);
    }
}
