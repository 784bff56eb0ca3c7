//! A GGUF in memory: whole, or only its vocabulary.

use std::ffi::{CString, c_void};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;
use parking_lot::Mutex;

use super::adapters::{Adapter, ModelAdapters};
use super::fit::fit;
use super::params::LlamaOptions;
use super::placement::{GpuLayers, Placed};
use crate::adapters::FileIdentity;
use crate::backend::{LoadError, Offload, Progress};

/// A model file, and the identity of what was first loaded.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    name: CString,
    /// The model's files and those of its adapters.
    seen: Vec<(PathBuf, FileIdentity)>,
    /// Whether the MTP heads of the file are loaded too.
    pub mtp: bool,
}

pub(super) struct Weights {
    pointer: NonNull<sys::llama_model>,
    offload: Option<Offload>,
    adapters: ModelAdapters,
}

// SAFETY: llama.cpp does not change a model after it is loaded, but for its list of adapters, which only
// the engine's thread changes and reads. Every other call made here through the shared pointer takes it
// as const or only reads it; contexts are made one at a time because one engine thread makes them.
unsafe impl Send for Weights {}
// SAFETY: as above.
unsafe impl Sync for Weights {}

/// Held while weights load.
static LOADS: Mutex<()> = Mutex::new(());

/// How much of a file is loaded.
#[derive(Clone, Copy)]
pub(super) enum Extent<'o> {
    Whole(&'o LlamaOptions),
    VocabularyAlone,
    /// All but the bytes of the weights.
    Metadata,
}

impl Source {
    pub fn new(path: &Path, adapters: &[Adapter]) -> Result<Self, LoadError> {
        let name = path.to_str().and_then(|path| CString::new(path).ok());
        let name =
            name.ok_or_else(|| refused(path, "the path is not UTF-8 or contains a NUL byte"))?;
        let adapters = adapters.iter().map(|it| it.path.clone());
        let files = shards(path).into_iter().chain(adapters);
        let seen = files.map(|path| (path.clone(), FileIdentity::of(&path))).collect();
        Ok(Self { path: path.to_owned(), name, seen, mtp: false })
    }

    /// Loads the file; calls `progress` with 0 to 1, and ends early when it breaks.
    ///
    /// Where the devices were chosen and take the layers after all not, the processor takes them.
    pub fn load(
        &self,
        extent: Extent<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Weights, LoadError> {
        self.check_unchanged()?;
        let Extent::Whole(options) = extent else {
            return self.load_placed(extent, &mut Placed::nowhere(), progress);
        };
        // llama.cpp makes a device known before it is complete: a second load would use it too early.
        let _one_at_a_time = LOADS.lock();
        let placement = &options.placement;
        let mut placed = placement.place()?;
        if let (GpuLayers::Auto, Some(shape)) = (placement.layers, placement.context)
            && placed.is_on_devices()
        {
            let (path, types) = (&self.name, options.cache_types());
            placed = fit(placement, placed, path, self.mtp, shape, types);
        }
        let loaded = self.load_placed(extent, &mut placed, progress);
        match loaded {
            Err(LoadError::Model { .. })
                if placed.is_on_devices() && placement.layers == GpuLayers::Auto =>
            {
                tracing::warn!(devices = ?placed.names, "the model was not loaded there: trying the processor");
                self.load_placed(extent, &mut Placed::nowhere(), progress)
            }
            loaded => loaded,
        }
    }

    /// As [`Source::load`], on no device.
    pub fn load_on_processor(
        &self,
        options: &LlamaOptions,
        progress: &mut Progress<'_>,
    ) -> Result<Weights, LoadError> {
        self.check_unchanged()?;
        let _one_at_a_time = LOADS.lock();
        self.load_placed(Extent::Whole(options), &mut Placed::nowhere(), progress)
    }

    /// Loads the file without the bytes of its weights, so that llama.cpp initialises the devices of `placed`.
    pub fn load_metadata(&self, placed: &mut Placed) -> Result<(), LoadError> {
        let _one_at_a_time = LOADS.lock();
        self.load_placed(Extent::Metadata, placed, &mut |_| ControlFlow::Continue(())).map(drop)
    }

    /// KV is saved under the fingerprint of the first files.
    fn check_unchanged(&self) -> Result<(), LoadError> {
        if let Some((path, _)) =
            self.seen.iter().find(|(path, seen)| FileIdentity::of(path) != *seen)
        {
            return Err(refused(
                path,
                "the file has changed since it was loaded first: start again to use it",
            ));
        }
        Ok(())
    }

    fn load_placed(
        &self,
        extent: Extent<'_>,
        placed: &mut Placed,
        progress: &mut Progress<'_>,
    ) -> Result<Weights, LoadError> {
        let mut interrupted = false;
        let mut report_progress = |loaded: f32| {
            interrupted |= progress(loaded).is_break();
            !interrupted
        };
        let mut callback: &mut dyn FnMut(f32) -> bool = &mut report_progress;
        // SAFETY: the defaults are plain values; `name`, `placed` and `callback` outlive the call,
        // which copies what they point to, and the callback is called only during it.
        let pointer = unsafe {
            let mut params = sys::llama_model_default_params();
            params.vocab_only = matches!(extent, Extent::VocabularyAlone);
            if matches!(extent, Extent::Metadata) {
                params.no_alloc = true;
                params.load_mode = sys::LLAMA_LOAD_MODE_NONE;
            }
            params.load_mtp = self.mtp;
            placed.apply(&mut params);
            params.progress_callback = Some(report);
            params.progress_callback_user_data = (&raw mut callback).cast::<c_void>();
            sys::llama_model_load_from_file(self.name.as_ptr(), params)
        };
        let Some(pointer) = NonNull::new(pointer) else {
            if interrupted {
                return Err(LoadError::Interrupted { path: self.path.display().to_string() });
            }
            let mut reason = "its content was refused".to_owned();
            if placed.is_on_devices() {
                let devices = placed.names.join(" and ");
                reason += &format!(
                    "; {devices} may have too little memory: start with fewer --gpu-layers, 0 for none"
                );
            }
            return Err(self.refused(&reason));
        };
        let offload = match extent {
            Extent::Whole(options) if placed.is_on_devices() => {
                Some(placed.offload(pointer, options.placement.kv_offload))
            }
            _ => None,
        };
        let mut weights = Weights { pointer, offload, adapters: ModelAdapters::default() };
        if let Extent::Whole(options) = extent {
            weights.adapters = ModelAdapters::load(pointer, &options.adapters)?;
        }
        Ok(weights)
    }

    pub fn refused(&self, reason: &str) -> LoadError {
        refused(&self.path, reason)
    }
}

impl Weights {
    pub fn as_ptr(&self) -> *mut sys::llama_model {
        self.pointer.as_ptr()
    }

    pub fn with_adapters(&self) -> (NonNull<sys::llama_model>, &ModelAdapters) {
        (self.pointer, &self.adapters)
    }

    /// The layers on devices.
    pub fn offload(&self) -> Option<Offload> {
        self.offload.clone()
    }

    /// The same, which say that devices have their layers.
    #[cfg(test)]
    pub fn said_to_be_on(mut self, offload: Offload) -> Self {
        self.offload = Some(offload);
        self
    }

    pub fn vocab(&self) -> *const sys::llama_vocab {
        // SAFETY: the model is loaded; its vocabulary lives as long as it does.
        unsafe { sys::llama_model_get_vocab(self.as_ptr()) }
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        // SAFETY: contexts share the weights, so no context is left; only this frees them.
        unsafe { sys::llama_model_free(self.as_ptr()) }
    }
}

/// Calls the `progress` of [`Source::load`]; returns whether to go on.
///
/// # Safety
/// `data` must point to a `&mut dyn FnMut(f32) -> bool` that is not used elsewhere during the call.
unsafe extern "C" fn report(progress: f32, data: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    let callback = unsafe { &mut *data.cast::<&mut dyn FnMut(f32) -> bool>() };
    callback(progress)
}

/// The files of the model whose first one is at `path`. llama.cpp finds them by these names, too.
pub(super) fn shards(path: &Path) -> Vec<PathBuf> {
    let several = || {
        let stem = path.to_str()?.strip_suffix(".gguf")?;
        let (stem, count) = stem.rsplit_once("-00001-of-")?;
        let count: u32 = count.parse().ok()?;
        let shard = |number: u32| PathBuf::from(format!("{stem}-{number:05}-of-{count:05}.gguf"));
        let is_first = (2..=99_999).contains(&count) && shard(1) == path;
        is_first.then(|| (1..=count).map(shard).collect::<Vec<_>>())
    };
    several().unwrap_or_else(|| vec![path.to_owned()])
}

fn refused(path: &Path, reason: &str) -> LoadError {
    LoadError::Model { path: path.display().to_string(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_model_of_which_any_shard_has_changed_is_not_loaded_again() {
        super::super::start().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let shard = |number: u32| directory.path().join(format!("m-{number:05}-of-00003.gguf"));
        for changed in 1..=3 {
            for number in 1..=3 {
                fs::write(shard(number), "old").unwrap();
            }
            let source = Source::new(&shard(1), &[]).unwrap();
            fs::write(shard(changed), "another").unwrap();
            let loaded = source.load(Extent::VocabularyAlone, &mut |_| ControlFlow::Continue(()));
            let Err(error) = loaded else { panic!("it was loaded") };
            let error = error.to_string();
            let named = shard(changed).display().to_string();
            assert!(error.contains("has changed") && error.contains(&named), "{error}");
        }
    }

    #[test]
    fn a_model_in_one_file_has_that_file() {
        for name in [
            "m.gguf",
            "m-00001-of-00001.gguf",
            "m-00001-of-x.gguf",
            "m-00001-of-3.gguf",
            "m-00001-of-+0003.gguf",
            "m-00002-of-00003.gguf",
        ] {
            assert_eq!(shards(Path::new(name)), [Path::new(name)], "{name}");
        }
    }
}
