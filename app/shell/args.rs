//! The command line of the app and the settings that follow from it. Only this file reads the
//! environment for the daemon.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Parser;
use hob_config::{DaemonFlags, Key, Resolved, Settings, Sources, UserDirs};
use hob_daemon::startup::StartedBy;
use tempfile::TempDir;

/// Local chats that reopen in an instant
#[derive(Clone, Parser)]
#[command(name = "hob-desktop", version, max_term_width = 100)]
pub struct Args {
    #[command(flatten)]
    flags: DaemonFlags,
    /// Start in the tray, without a window
    #[arg(long)]
    pub hidden: bool,
    /// Test the app itself: open the window, chat, restart the daemon, resume the chat, print timings
    #[arg(long)]
    pub smoke_test: bool,
    /// For the app itself: it was executed again because its engine hung
    #[arg(long, hide = true)]
    restarted: bool,
}

impl Args {
    /// A process that `program::restart` has started has the command line of the process before.
    pub fn started_by(&self) -> StartedBy {
        if self.restarted { StartedBy::Hob } else { StartedBy::User }
    }

    /// A temporary data directory for the self-test, unless one is named.
    pub fn scratch(&self) -> Result<Option<TempDir>> {
        if !self.smoke_test || self.flags.0.get(Key::DataDir).is_some() {
            return Ok(None);
        }
        TempDir::new().map(Some).context("cannot make a directory for the self-test")
    }

    /// The daemon's settings. `data_dir` replaces the user's.
    pub fn resolve(&self, data_dir: Option<&Path>) -> Result<Resolved> {
        let mut flags = self.flags.0.clone();
        if let Some(dir) = data_dir {
            flags.set(Key::DataDir, dir.display().to_string());
            flags.set(Key::Listen, "127.0.0.1:0");
        }
        let user_dirs = UserDirs::of_current_user()?;
        let sources = Sources::gather(user_dirs, std::env::vars_os(), flags)?;
        Ok(Settings::resolve(&sources)?)
    }
}

/// The name of this instance on the session's bus. Another data directory is another app.
pub fn instance(resolved: &Resolved) -> String {
    const USERS: &str = "dev.hob.desktop";
    let data_dir = &resolved.settings.data_dir;
    if *data_dir == resolved.user_dirs.data_dir {
        return USERS.to_owned();
    }
    let bytes = data_dir.as_os_str().as_encoded_bytes();
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // D-Bus limits names to 255 characters; directories differ at their ends.
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
    fn the_app_knows_that_it_has_executed_itself_again() {
        let started_by = |flags: &[&str]| {
            Args::parse_from(["hob-desktop"].iter().chain(flags).copied()).started_by()
        };
        assert_eq!(started_by(&["--hidden"]), StartedBy::User);
        assert_eq!(started_by(&["--hidden", crate::shell::program::RESTARTED]), StartedBy::Hob);
    }

    #[test]
    fn the_self_test_uses_no_directory_of_the_user() {
        let args = Args::parse_from(["hob-desktop", "--smoke-test", "--model", "fake"]);
        let scratch = args.scratch().unwrap().unwrap();
        let settings = args.resolve(Some(scratch.path())).unwrap().settings;
        assert!(settings.data_dir.starts_with(scratch.path()));
        assert!(settings.slots_dir.starts_with(scratch.path()));
        assert_eq!(settings.listen.port(), 0);
    }
}
