//! The adapters that requests may add, for a daemon with a loaded model.

use hob_config::{Settings, paths};

use super::engine::Opened;
use crate::adapters::{Options, Probe, RequestAdapters};

pub(super) fn of(settings: &Settings, opened: &Opened) -> RequestAdapters {
    RequestAdapters::new(Options {
        adapters: settings.adapters.clone(),
        architecture: opened.engine.model().facts().architecture.clone(),
        hashes: paths::hash_cache_file(&settings.data_dir),
        probe: prober(settings, opened),
    })
}

/// `None` for the models of the tests, which have no file.
#[cfg(feature = "llama")]
fn prober(settings: &Settings, opened: &Opened) -> Option<Probe> {
    use hob_models::ContentHash;
    use hob_runtime::backend::MtpHeads;
    use hob_slots::AdapterSet;
    use hob_slots::fingerprint::Lora;

    use super::{model_file, probe};

    if opened.files.is_empty() {
        return None;
    }
    let (settings, files) = (settings.clone(), opened.files.clone());
    let (cache, model) = (model_file::probe_cache(&settings), opened.engine.fingerprint());
    let mtp = opened.engine.model().mtp() == MtpHeads::Loaded;
    Some(Box::new(move |path, sha256| {
        // The root of its KV names the model, its adapters and this one.
        let set = AdapterSet::new(vec![Lora { sha256, scale: 1.0 }]).expect("one is a set");
        let content = ContentHash(set.root(model).0);
        probe::check_adapter(&settings, &cache, &files, mtp, path, content)
    }))
}

#[cfg(not(feature = "llama"))]
fn prober(_: &Settings, _: &Opened) -> Option<Probe> {
    None
}
