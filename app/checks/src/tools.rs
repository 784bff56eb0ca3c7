//! The programs that the checks run, and their paths.
//!
//! - A missing program fails the check with its package and the remedy.
//! - hobd is the one that was built beside the checks; `HOB_CHECKS_HOBD` names another one.

use std::env;
use std::path::{Path, PathBuf};

/// A program of the system.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its names on different systems, the most common one first.
    pub names: &'static [&'static str],
    /// The Debian package.
    pub package: &'static str,
}

pub const CHROMIUM: Tool =
    Tool { names: &["chromium", "chromium-browser", "google-chrome"], package: "chromium" };
/// The WebDriver of Chromium.
pub const CHROMEDRIVER: Tool =
    Tool { names: &["chromedriver", "chromium.chromedriver"], package: "chromium-driver" };

impl Tool {
    /// Its path; panics when it is not installed.
    pub fn find(&self) -> PathBuf {
        let path = env::var_os("PATH").unwrap_or_default();
        let places: Vec<PathBuf> = env::split_paths(&path).collect();
        let candidates =
            self.names.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
        candidates.into_iter().find(|path| path.is_file()).unwrap_or_else(|| {
            panic!(
                "{} is not installed: run `cargo xtask setup`, or install the package {}",
                self.names[0], self.package
            )
        })
    }
}

/// The path of hobd; panics when it is not built.
pub fn hobd() -> PathBuf {
    if let Some(path) = env::var_os("HOB_CHECKS_HOBD") {
        return path.into();
    }
    let built = profile_directory().join("hobd");
    assert!(
        built.is_file(),
        "{} is missing: run `cargo xtask test`, or `cargo build --release --package hob-daemon`",
        built.display()
    );
    built
}

/// The path of the app; panics when it is not built.
pub fn app() -> PathBuf {
    if let Some(path) = env::var_os("HOB_CHECKS_APP") {
        return path.into();
    }
    let built = profile_directory().join("hob-desktop");
    assert!(
        built.is_file(),
        "{} is missing: run `cargo xtask test`, or `cargo build --release --package hob-desktop \
         --features desktop`",
        built.display()
    );
    built
}

/// The directory for screenshots and reports.
pub fn reports() -> PathBuf {
    let target =
        profile_directory().parent().expect("a profile is in the target directory").to_owned();
    let reports = target.join("checks");
    std::fs::create_dir_all(&reports).expect("the target can be written");
    reports
}

/// The root of the project.
pub fn root() -> &'static Path {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("the checks are in app/checks")
}

/// The directory of the build profile: `target/release`.
fn profile_directory() -> PathBuf {
    let this = env::current_exe().expect("this program has a path");
    let directory = this.parent().expect("it is in a directory");
    match directory.file_name() {
        Some(name) if name == "deps" => directory.parent().expect("deps is in a profile"),
        _ => directory,
    }
    .to_owned()
}
