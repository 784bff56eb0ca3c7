//! The engine at another address that the settings name, and the placeholder of a model in this process.

use anyhow::{Context, Result};
use hob_config::{Resolved, Settings};
use hob_models::{ChosenContext, Estimate};
use hob_runtime::backend::fake::FakeModel;
use hob_slots::fingerprint::FileDigest;

use super::model::Loaded;
use super::model_file::fingerprint;
use crate::models::ModelSampling;
use crate::prompt::RendersIn;
use crate::upstream::Upstream;

/// Cells of the placeholder, which no turn uses.
const CELLS: u64 = 4096;

/// `None` where this process has an engine.
///
/// # Errors
/// When the token cannot be read, or the system's certificates.
pub fn open(settings: &Settings) -> Result<Option<Upstream>> {
    let Some(url) = &settings.upstream else { return Ok(None) };
    let read = settings.upstream_token_file.as_ref().map(|file| {
        let token = std::fs::read_to_string(file);
        token.with_context(|| format!("cannot read the upstream's token in {}", file.display()))
    });
    let text = read.transpose()?;
    let token = text.as_deref().map(str::trim);
    Upstream::open(url, token, settings.upstream_timeout).map(Some)
}

/// A model without weights: conversations, profiles and the store need the name of one.
pub(super) fn placeholder(resolved: &Resolved, url: &str) -> Loaded {
    Loaded {
        model: std::sync::Arc::new(FakeModel::new()),
        fingerprint: fingerprint(resolved, FileDigest([0xff; 32]), "upstream", &[]),
        name: "upstream".to_owned(),
        shown: format!("the engine at {url}"),
        files: Vec::new(),
        context: ChosenContext::of_fake(Some(CELLS)),
        estimate: Some(Estimate { weights_bytes: 0, kv_bytes: 0, kv_bytes_per_token: 0 }),
        sampling: ModelSampling::default(),
        renders_in: RendersIn::ThisProcess,
        drafter: None,
        recall_model: None,
    }
}
