//! The LoRA adapters that requests may add: those of the setting `adapters`, and no other file.
//!
//! - A request names an adapter by its name, by its place in the setting, or by its path as the setting has
//!   it. A path of a request is compared, and never opened.
//! - A file is hashed, its header is read and a child process tries it before the engine loads it; again
//!   when it has changed.
//! - A file that passed is remembered. One that did not is checked again by the next request: memory or the disk may
//!   be to blame. What is to blame on the file itself is remembered by [`HashCache`] and the [`Probe`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hob_config::NamedAdapter;
use hob_models::HashCache;
use hob_models::gguf::Header;
use hob_runtime::adapters::{AdapterFile, Adapters, FileIdentity};
use hob_slots::fingerprint::{FileDigest, Lora};
use parking_lot::Mutex;

use crate::blocking::compute;
use crate::error::ApiError;
use crate::wire::lora::{AdapterName, WantedAdapter};

/// Tries a file of this content in a child process. One that is to blame itself is not tried twice.
///
/// # Errors
/// The reason why it cannot be used.
pub type Probe = Box<dyn Fn(&Path, FileDigest) -> Result<(), String> + Send + Sync>;

pub struct Options {
    pub adapters: Vec<NamedAdapter>,
    /// The architecture of the model.
    pub architecture: String,
    /// The file of the hashes.
    pub hashes: PathBuf,
    /// `None`: the model takes any file.
    pub probe: Option<Probe>,
}

/// Clones share everything.
#[derive(Clone)]
pub struct RequestAdapters {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    /// The adapters that passed, by their place in the setting.
    checked: Mutex<BTreeMap<usize, CheckedAdapter>>,
    /// Held while a file is checked: one at a time.
    checking: Mutex<()>,
}

/// A file that can be used.
#[derive(Clone)]
struct CheckedAdapter {
    identity: FileIdentity,
    content: FileDigest,
}

impl RequestAdapters {
    pub fn new(options: Options) -> Self {
        let (checked, checking) = Default::default();
        Self { shared: Arc::new(Shared { options, checked, checking }) }
    }

    /// In the order of their numbers.
    pub fn list(&self) -> &[NamedAdapter] {
        &self.shared.options.adapters
    }

    /// The adapters that a request names.
    ///
    /// # Errors
    /// Names the field, for an unknown adapter and for one that cannot be used.
    pub async fn resolve(&self, wanted: &[WantedAdapter]) -> Result<Adapters, ApiError> {
        if wanted.is_empty() {
            return Ok(Adapters::default());
        }
        let (adapters, wanted) = (self.clone(), wanted.to_vec());
        compute(move || adapters.resolve_now(&wanted)).await
    }

    fn resolve_now(&self, wanted: &[WantedAdapter]) -> Result<Adapters, ApiError> {
        let mut files = Vec::new();
        for adapter in wanted {
            let place = self.find(adapter)?;
            if adapter.scale != 0.0 {
                files.push(self.file(place, adapter)?);
            }
        }
        Adapters::new(files).map_err(|error| {
            ApiError::field("lora", format!("`lora` is no set of adapters: {error}"))
        })
    }

    fn find(&self, wanted: &WantedAdapter) -> Result<usize, ApiError> {
        let adapters = self.list();
        let found = match &wanted.name {
            AdapterName::Place(place) => (*place < adapters.len()).then_some(*place),
            AdapterName::Name(name) => adapters.iter().position(|it| it.name == *name),
            AdapterName::Path(path) => adapters.iter().position(|it| it.path == Path::new(path)),
        };
        found.ok_or_else(|| {
            let known: Vec<_> = adapters.iter().map(|it| format!("`{}`", it.name)).collect();
            let remedy = if known.is_empty() {
                "this hobd has none: name their files in the setting `adapters`".to_owned()
            } else {
                let known = known.join(", ");
                format!("choose one of {known}, or name its file in the setting `adapters`")
            };
            let param = wanted.field();
            let message = format!("`{param}` names no adapter: {remedy}");
            ApiError::field(param, message).code("adapter_not_found")
        })
    }

    fn file(&self, place: usize, wanted: &WantedAdapter) -> Result<AdapterFile, ApiError> {
        let NamedAdapter { name, path } = &self.list()[place];
        let CheckedAdapter { identity, content } = self.checked(place, path).map_err(|reason| {
            let message = format!("the adapter `{name}` cannot be used: {reason}");
            ApiError::field(wanted.field(), message).code("adapter_unusable")
        })?;
        let lora = Lora { sha256: content, scale: wanted.scale };
        Ok(AdapterFile { name: name.clone(), path: path.clone(), identity, lora })
    }

    fn checked(&self, place: usize, path: &Path) -> Result<CheckedAdapter, String> {
        let known = || {
            let known = self.shared.checked.lock().get(&place).cloned();
            known.filter(|known| known.identity == FileIdentity::of(path))
        };
        if let Some(known) = known() {
            return Ok(known);
        }
        let _one_at_a_time = self.shared.checking.lock();
        if let Some(known) = known() {
            return Ok(known);
        }
        let identity = FileIdentity::of(path);
        let passed = CheckedAdapter { identity, content: self.check(path)? };
        self.shared.checked.lock().insert(place, passed.clone());
        Ok(passed)
    }

    fn check(&self, path: &Path) -> Result<FileDigest, String> {
        let Options { architecture, hashes, probe, .. } = &self.shared.options;
        if probe.is_some() {
            check_header(path, architecture)?;
        }
        let hashed = HashCache::at(hashes.clone()).hash(&[path.to_owned()], &mut |_| {});
        let hash = hashed.map_err(|error| format!("{}: {error}", path.display()))?;
        let content = FileDigest(hash.0);
        probe.as_ref().map_or(Ok(()), |probe| probe(path, content))?;
        Ok(content)
    }
}

/// Refuses by name what llama.cpp would refuse without one, or take for something else.
fn check_header(path: &Path, architecture: &str) -> Result<(), String> {
    let header = Header::open(path).map_err(|error| error.to_string())?;
    let text = |key| header.text(key).unwrap_or("none");
    let (kind, made_for) = (text("adapter.type"), text("general.architecture"));
    let reason = if made_for == "controlvector" {
        "it is a control vector: Hob takes LoRA adapters alone".to_owned()
    } else if text("general.type") != "adapter" {
        "it is no adapter but a model: name it in the setting `model`".to_owned()
    } else if kind != "lora" {
        format!("its type is `{}`: Hob takes LoRA adapters alone", kind.escape_debug())
    } else if header.metadata.contains_key("adapter.alora.invocation_tokens") {
        "an adapter that begins at a token (aLoRA) is not supported: take one that always applies"
            .to_owned()
    } else if made_for != architecture {
        let made_for = made_for.escape_debug();
        format!(
            "it is made for a model of the architecture {made_for}, and this one's is {architecture}"
        )
    } else {
        return Ok(());
    };
    Err(format!("{}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hob_testkit::Gguf;

    use super::*;

    #[test]
    fn a_file_is_tried_until_it_passes_and_then_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("style.gguf");
        let header = Gguf::empty().text("general.type", "adapter").text("adapter.type", "lora");
        header.text("general.architecture", "llama").tensor("a", [1, 1], &[0.0]).write(&path);
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = tries.clone();
        let probe = move |_: &Path, _: FileDigest| match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Err("out of memory".to_owned()),
            _ => Ok(()),
        };
        let adapters = RequestAdapters::new(Options {
            adapters: vec![NamedAdapter { name: "style".to_owned(), path }],
            architecture: "llama".to_owned(),
            hashes: directory.path().join("hashes.json"),
            probe: Some(Box::new(probe)),
        });
        let wanted = [WantedAdapter { name: AdapterName::Place(0), index: 0, scale: 1.0 }];
        let refused = adapters.resolve_now(&wanted).unwrap_err();
        assert!(refused.message.contains("out of memory"), "{}", refused.message);
        for _ in 0..2 {
            adapters.resolve_now(&wanted).unwrap();
        }
        assert_eq!(tries.load(Ordering::SeqCst), 2);
    }
}
