//! What can be asked on the command line, and what follows from it. The one place that reads the
//! environment for the daemon.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Parser;
use hob_config::{DaemonFlags, Key, Places, Resolved, Settings, Sources};
use tempfile::TempDir;

/// Chats that reopen in an instant, and a memory that one can see
#[derive(Clone, Parser)]
#[command(name = "hob-desktop", version, max_term_width = 100)]
pub struct Args {
    #[command(flatten)]
    flags: DaemonFlags,
    /// Start in the tray, without a window
    #[arg(long)]
    pub hidden: bool,
    /// Try the app itself: open the window, ask, start over, ask on, tell what was measured, and end
    #[arg(long)]
    pub smoke_test: bool,
}

impl Args {
    /// A directory for what a trial leaves, unless one is named.
    pub fn scratch(&self) -> Result<Option<TempDir>> {
        if !self.smoke_test || self.flags.0.get(Key::DataDir).is_some() {
            return Ok(None);
        }
        TempDir::new().map(Some).context("cannot make a directory for what the trial leaves")
    }

    /// The daemon's settings. `data_dir`: in place of the user's.
    pub fn resolve(&self, data_dir: Option<&Path>) -> Result<Resolved> {
        let mut flags = self.flags.0.clone();
        if let Some(dir) = data_dir {
            flags.set(Key::DataDir, dir.display().to_string());
            flags.set(Key::Listen, "127.0.0.1:0");
        }
        let places = Places::of_user()?;
        let sources = Sources::gather(places, std::env::vars_os(), flags)?;
        Ok(Settings::resolve(&sources)?)
    }
}

/// The name that one instance has on the session's bus. Whoever names another data directory wants
/// another app.
pub fn instance(resolved: &Resolved) -> String {
    const USERS: &str = "dev.hob.desktop";
    let data_dir = &resolved.settings.data_dir;
    if *data_dir == resolved.places.data_dir {
        return USERS.to_owned();
    }
    let bytes = data_dir.as_os_str().as_encoded_bytes();
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // A name on the bus has 255 characters at most; directories differ at their ends.
    let end = &name[name.len().saturating_sub(160)..];
    format!("{USERS}.at_{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_data_directories_are_two_apps() {
        let at = |dir: &str| {
            let args = Args::parse_from(["hob-desktop", "--data-dir", dir, "--model", "fake"]);
            instance(&args.resolve(None).unwrap())
        };
        assert_eq!(at("/a"), at("/a"));
        assert_ne!(at("/a"), at("/b"));
        assert!(at(&"/long".repeat(100)).len() < 240);
    }

    #[test]
    fn a_trial_touches_nothing_of_the_users() {
        let args = Args::parse_from(["hob-desktop", "--smoke-test", "--model", "fake"]);
        let scratch = args.scratch().unwrap().unwrap();
        let settings = args.resolve(Some(scratch.path())).unwrap().settings;
        assert!(settings.data_dir.starts_with(scratch.path()));
        assert!(settings.slots_dir.starts_with(scratch.path()));
        assert_eq!(settings.listen.port(), 0);
    }
}
