//! A small model beside the model: its file is found and tried in a child as the model's is. One that
//! cannot be used costs what it is for alone, and its reason goes to the log and the status.

use hob_config::{ModelChoice, Resolved, Settings};
use hob_models::{ContentHash, ModelFile};

use super::{Report, model_file, probe};

/// The name of such a model, and why it is not used.
pub struct Refused {
    pub name: String,
    pub reason: String,
}

/// A file that a child has tried.
pub struct Found {
    pub file: ModelFile,
    pub content: ContentHash,
}

impl Refused {
    /// `lost`: what there is not without it.
    pub fn new(name: String, reason: String, lost: &str) -> Self {
        tracing::warn!(model = name, reason, "{lost}");
        Self { name, reason }
    }
}

/// Finds the file of `choice`, and has a child try it.
///
/// # Errors
/// Those of a file that cannot be used.
pub fn find(
    resolved: &Resolved,
    choice: &ModelChoice,
    report: &mut Report<'_>,
) -> anyhow::Result<Found> {
    let settings = &resolved.settings;
    let file = model_file::find(resolved, choice)?;
    let content = model_file::hash(&settings.data_dir, &file, report)?;
    if *choice != ModelChoice::Bundled {
        // The adapters of the settings are the model's.
        let without_adapters = Settings { lora: Vec::new(), ..settings.clone() };
        let probes = model_file::probe_cache(settings);
        probe::check(&without_adapters, &probes, &file, content, report)?;
    }
    Ok(Found { file, content })
}
