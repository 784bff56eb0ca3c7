//! The catalogue of models, for a daemon with a loaded model.

use hob_config::{Resolved, Settings, paths};
use hob_models::{Demand, Roots};

use super::ModelSwitch;
use super::engine::Opened;
use super::model::{STATE_FORMAT, fingerprint};
use crate::models::{Catalogue, Current, Options};

pub(super) fn catalogue(model_switch: &ModelSwitch, opened: &Opened) -> Catalogue {
    let resolved = model_switch.resolved().clone();
    let settings = &resolved.settings;
    Catalogue::new(Options {
        roots: roots(&resolved),
        models_dir: paths::models_dir(&settings.data_dir),
        hashes: paths::hash_cache_file(&settings.data_dir),
        demand: demand(settings),
        kept: Some(opened.store.reader().clone()),
        current: Current {
            choice: settings.model.clone(),
            name: opened.name.clone(),
            path: opened.files.first().cloned(),
            fingerprint: opened.engine.fingerprint(),
            kv_bytes_per_token: opened.estimate.map(|estimate| estimate.kv_bytes_per_token),
        },
        fixed: resolved.fixed_model().map(ToString::to_string),
        failure: model_switch.failure().cloned(),
        naming: Box::new(move |content| fingerprint(&resolved, content, STATE_FORMAT).hash()),
    })
}

/// The directories of models. Environment variables name those of other programs.
pub(super) fn roots(resolved: &Resolved) -> Roots {
    let own = paths::models_dir(&resolved.settings.data_dir);
    Roots::from_env(|name| std::env::var_os(name), &resolved.user_dirs.home, &own)
}

/// The context that these settings need of a model.
pub(super) fn demand(settings: &Settings) -> Demand {
    let kind = |name: &str| name.parse().expect("every cache type is an element type of ggml");
    Demand {
        ctx: settings.ctx.into(),
        slots: settings.slots.into(),
        cache_type_k: kind(settings.cache_type_k.as_str()),
        cache_type_v: kind(settings.cache_type_v.as_str()),
    }
}
