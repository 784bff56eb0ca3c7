//! Builds the desktop app and becomes it.

use std::os::unix::process::CommandExt;

use crate::command::{Failure, Line};
use crate::gpu::Choice;

/// The command that builds the app.
pub const BUILD: &str = "cargo build --release --package hob-desktop --features desktop";

/// Builds, then becomes the app; returns only when that failed.
pub fn run(gpu: &Choice, app_args: &[String]) -> Result<(), Failure> {
    gpu.add_to(Line::new(BUILD), "hob-desktop").run()?;
    let app = Line::new("target/release/hob-desktop").args(app_args);
    println!("$ {app}");
    Err(app.not_started(&app.command().exec()))
}
