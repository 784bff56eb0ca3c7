//! The desktop app: builds it and becomes it, or makes its bundles.
//!
//! - Bundles are made by Tauri's own tool, which nobody has by chance: what is missing is named, with
//!   the line that installs it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs, io};

use crate::command::{Failure, Line};

/// How the app is built, wherever it is needed.
pub const BUILD: &str = "cargo build --release --package hob-desktop --features desktop";

const BUNDLES: &str = "target/release/bundle";

/// What Tauri's tool makes an AppImage with, and where it fetches that. Their names go on with versions
/// and machines.
const APPIMAGE_TOOLS: [(&str, &str); 3] = [
    ("AppRun-", "https://github.com/tauri-apps/binary-releases/releases"),
    ("linuxdeploy-", "https://github.com/tauri-apps/binary-releases/releases"),
    (
        "linuxdeploy-plugin-appimage",
        "https://github.com/linuxdeploy/linuxdeploy-plugin-appimage/releases",
    ),
];

/// Builds, then becomes the app; returns only when that failed.
pub fn run(app_args: &[String]) -> Result<(), Failure> {
    Line::new(BUILD).run()?;
    let app = Line::new("target/release/hob-desktop").args(app_args);
    println!("$ {app}");
    Err(app.not_started(&app.command().exec()))
}

/// Makes the bundles of this system and says where they are.
pub fn bundle() -> Result<(), Failure> {
    let version = Line::new("cargo tauri --version").command().output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    if !version.is_some_and(|version| is_ours(&version)) {
        return Err(Failure::new(
            "Tauri's own tool is missing: `cargo tauri` of major version 2",
            "run `cargo install --locked tauri-cli --version '^2'`, and try again",
        ));
    }
    Line::new("cargo tauri build --no-bundle").run()?;
    let begun = SystemTime::now();
    if cfg!(target_os = "macos") {
        Line::new("cargo tauri bundle --bundles app,dmg").run()?;
        return told(begun);
    }
    Line::new("cargo tauri bundle --bundles deb").run()?;
    // Without these the AppImage is no failure of ours; the package is made already.
    let made = Line::new("cargo tauri bundle --bundles appimage").run();
    told(begun)?;
    made.map_err(|failure| {
        let dir = tools_dir();
        let missing = missing_tools(&dir);
        if missing.is_empty() {
            return failure;
        }
        Failure::new(
            format!("no AppImage was made: {} could not be fetched", missing.join(" and ")),
            format!(
                "the .deb above is whole. For the AppImage, try again where GitHub can be reached; the \
                 tools are kept in {}",
                dir.display()
            ),
        )
    })
}

fn is_ours(version: &str) -> bool {
    version.trim().strip_prefix("tauri-cli ").is_some_and(|version| version.starts_with("2."))
}

/// Where Tauri's tool keeps what it fetches.
fn tools_dir() -> PathBuf {
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    cache.unwrap_or_default().join("tauri")
}

fn missing_tools(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten();
    let names: Vec<_> = names.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    let is_plugin = |name: &str| name.starts_with("linuxdeploy-plugin");
    let is_here = |tool: &str| {
        names.iter().any(|name| name.starts_with(tool) && is_plugin(name) == is_plugin(tool))
    };
    let missing = APPIMAGE_TOOLS.iter().filter(|(tool, _)| !is_here(tool));
    missing.map(|(tool, from)| format!("{}… ({from})", tool)).collect()
}

/// Says what there is since then.
fn told(begun: SystemTime) -> Result<(), Failure> {
    let unreadable = |error| Failure::new(format!("cannot read {BUNDLES}: {error}"), "try again");
    for path in made_since(Path::new(BUNDLES), begun).map_err(unreadable)? {
        println!("made {}", path.display());
    }
    Ok(())
}

/// The bundles in `dir`, which has a directory for each kind. Those of earlier versions stay there.
fn made_since(dir: &Path, begun: SystemTime) -> io::Result<Vec<PathBuf>> {
    let files = fs::read_dir(dir)?.flatten();
    let files = files.flat_map(|kind| fs::read_dir(kind.path()).into_iter().flatten()).flatten();
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
    fn only_the_second_major_version_of_the_tool_will_do() {
        assert!(is_ours("tauri-cli 2.12.4\n"));
        assert!(!is_ours("tauri-cli 3.0.0-alpha.5\n"));
        assert!(!is_ours(""));
    }

    #[test]
    fn each_tool_that_is_not_there_is_named() {
        let dir = empty_dir("tools");
        let make = |name: &str| fs::write(dir.join(name), "").unwrap();
        make("linuxdeploy-plugin-gtk.sh"); // It brings this one along.
        let nothing = missing_tools(&dir);
        make("AppRun-x86_64");
        make("linuxdeploy-1a2b-x86_64.AppImage");
        let plugin = missing_tools(&dir);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(nothing.len(), APPIMAGE_TOOLS.len());
        assert_eq!(plugin.len(), 1, "{plugin:?}");
        assert!(plugin[0].starts_with("linuxdeploy-plugin-appimage"));
    }

    #[test]
    fn only_what_was_made_now_is_told() {
        let dir = empty_dir("bundles");
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

    fn empty_dir(name: &str) -> PathBuf {
        let dir = env::temp_dir().join(format!("hob-xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }
}
