//! Builds the desktop app and becomes it.

use std::os::unix::process::CommandExt;

use crate::build;
use crate::command::{Failure, Line};
use crate::gpu::{Choice, programs};

/// Builds, then becomes the app; returns only when that failed.
pub fn run(choice: &Choice, app_args: &[String]) -> Result<(), Failure> {
    build::programs_for(choice, &["hob-desktop"])?;
    let app = Line::new(&format!("{}/hob-desktop", programs(choice.native))).args(app_args);
    println!("$ {app}");
    Err(app.not_started(&app.command().exec()))
}
