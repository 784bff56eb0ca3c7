//! The agent of the setting `device_bridge`, for which this daemon generates.

use std::fs;

use anyhow::{Context, Result};
use hob_config::Settings;

use super::sharing::daemon_name;
use crate::bridge::Place;

/// `None` where no agent generates here.
///
/// # Errors
/// When the token cannot be read, or the daemon's name cannot be written.
pub fn place(settings: &Settings) -> Result<Option<Place>> {
    let Some(url) = &settings.device_bridge else { return Ok(None) };
    let token = settings.device_bridge_token_file.as_ref().map(|file| {
        let token = fs::read_to_string(file);
        token.with_context(|| format!("cannot read the pairing token in {}", file.display()))
    });
    let token = token.transpose()?.map(|token| token.trim().to_owned());
    let device_id = format!("hob-{}", daemon_name(settings)?);
    Ok(Some(Place { url: url.clone(), token, device_id }))
}
