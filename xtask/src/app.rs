//! Builds the desktop app and becomes it.

use std::os::unix::process::CommandExt;

use crate::command::{Failure, Line};
use crate::gpu::{Choice, programs};

/// The command that builds the app.
pub const BUILD: &str = "cargo build --release --package hob-desktop --features desktop";

/// Builds, then becomes the app; returns only when that failed.
pub fn run(choice: &Choice, app_args: &[String]) -> Result<(), Failure> {
    choice.add_to(Line::new(BUILD), "hob-desktop").run()?;
    let app = Line::new(&format!("{}/hob-desktop", programs(choice.native))).args(app_args);
    println!("$ {app}");
    Err(app.not_started(&app.command().exec()))
}
