//! The catalogue of models, for a daemon with a loaded model.

use hob_config::{Key, paths};
use hob_models::Roots;

use super::ModelSwitch;
use super::engine::Opened;
use super::model_file::{
    STATE_FORMAT, context_settings, fingerprint, in_context, probe_cache, roots,
};
use crate::models::{Catalogue, CurrentModel, DeviceSettings, Options};

/// `custom_roots`: replace the directories of models.
pub(super) fn catalogue(
    model_switch: &ModelSwitch,
    opened: &Opened,
    custom_roots: Option<Roots>,
) -> Catalogue {
    let resolved = model_switch.resolved();
    let settings = &resolved.settings;
    let loras = opened.loras.clone();
    Catalogue::new(Options {
        roots: custom_roots.unwrap_or_else(|| roots(&resolved)),
        models_dir: paths::models_dir(&settings.data_dir),
        hashes: paths::hash_cache_file(&settings.data_dir),
        probes: probe_cache(settings),
        context: context_settings(settings),
        devices: DeviceSettings::of(settings),
        store: Some(opened.store.reader().clone()),
        current: CurrentModel {
            choice: settings.model.clone(),
            name: opened.name.clone(),
            path: opened.files.first().cloned(),
            fingerprint: opened.engine.fingerprint(),
            context: opened.context,
            kv_bytes_per_token: opened.estimate.map(|estimate| estimate.kv_bytes_per_token),
            sampling: opened.sampling.clone(),
            offload: opened.engine.model().offload(),
            draft_model: opened.draft_model.clone(),
            recall_model: opened.recall_model.clone(),
        },
        residency: opened.engine.residency(),
        fixed: resolved.fixed(Key::Model).map(ToString::to_string),
        fixed_context: resolved.fixed(Key::Ctx).map(ToString::to_string),
        failure: model_switch.failure().cloned(),
        naming: Box::new(move |content, rotates_by_long_factors| {
            let fingerprint = fingerprint(&resolved, content, STATE_FORMAT, &loras);
            in_context(fingerprint, rotates_by_long_factors).hash()
        }),
    })
}
