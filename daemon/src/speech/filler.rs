//! Filler phrases: played while the model computes its answer, synthesised in advance.
//!
//! - A phrase is played from memory: no file is read and no command runs.
//! - Phrases are synthesised one at a time while the engine is idle. A turn cancels a synthesis; that
//!   does not count as a failure.
//! - Each failed attempt is logged once; the user then hears no filler.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use hob_prewarm::phrase::{MAX_VOICES, PhraseId, Phrases, VoiceName, VoicePhrase};
use hob_runtime::Engine;
use hob_slots::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::command::VoiceCommand;
use super::phrase_cache::{CachedVoice, PhraseCache};
use super::wav;
use crate::clock::Clock;
use crate::warm::idle::{is_idle, until_idle};

/// Between two checks whether a turn needs the processor, while a command runs.
const BUSY_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Timers stand still while a laptop sleeps: wall time is checked at least this often.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// What [`Filler`] is made of.
pub struct Options {
    pub command: VoiceCommand,
    /// The default voice.
    pub voice: VoiceName,
    pub phrases: Vec<String>,
    /// Limit of the sounds in memory, and of those on disk.
    pub budget_bytes: u64,
    /// The cache is in its directory `voice`.
    pub data_dir: PathBuf,
    pub clock: Clock,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillerPhrase {
    pub voice: VoiceName,
    pub text: String,
    pub wav: Bytes,
}

/// The result of [`Filler::prepare_next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    Made,
    /// The reason is logged.
    Failed,
    /// No phrase is missing, or none may be tried yet.
    Nothing,
}

/// The phrases of all voices.
pub struct Filler {
    command: VoiceCommand,
    voice: VoiceName,
    texts: Vec<String>,
    clock: Clock,
    phrase_cache: Arc<PhraseCache>,
    state: Mutex<State>,
    wanted: Notify,
}

struct State {
    phrases: Phrases,
    sounds: BTreeMap<VoicePhrase, Bytes>,
    /// Evicted from memory, not yet removed from disk.
    evicted: Vec<VoicePhrase>,
}

impl Filler {
    /// Has no phrases until [`Filler::load`] or [`Filler::prepare_next`] has run.
    pub fn new(options: Options) -> Self {
        let Options { command, voice, phrases: texts, budget_bytes, data_dir, clock } = options;
        let mut phrases = Phrases::new(texts.len(), budget_bytes);
        phrases.want(&voice, clock());
        let phrase_cache = Arc::new(PhraseCache::new(&data_dir, &command, &texts));
        let state = Mutex::new(State { phrases, sounds: BTreeMap::new(), evicted: Vec::new() });
        Self { command, voice, texts, clock, phrase_cache, state, wanted: Notify::new() }
    }

    /// Loads the phrases that earlier runs synthesised.
    pub async fn load(&self) {
        let phrase_cache = self.phrase_cache.clone();
        let found = match tokio::task::spawn_blocking(move || phrase_cache.open()).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot read the phrase cache: phrases are synthesised again");
                return;
            }
            Err(_) => return, // The daemon ends.
        };
        let mut state = self.lock();
        // The default voice always has a place.
        let mut others = MAX_VOICES - 1;
        for CachedVoice { name, made, sounds } in found {
            let known = name == self.voice || others > 0;
            if known && name != self.voice {
                others -= 1;
                state.want(&name, made);
            }
            for (id, sound) in sounds {
                let spoken = (name.clone(), id);
                if !known || !state.hold(&spoken, sound.into()) {
                    state.evicted.push(spoken);
                }
            }
        }
    }

    /// The next phrase, in this voice or the default one. `None` if no phrase but the last one is
    /// ready; more will be synthesised.
    pub fn next_phrase(&self, voice: Option<&VoiceName>) -> Option<FillerPhrase> {
        let voice = voice.unwrap_or(&self.voice);
        let mut state = self.lock();
        state.want(voice, (self.clock)());
        self.wanted.notify_one();
        let id = state.phrases.choose(voice)?;
        let wav = state.sounds[&(voice.clone(), id)].clone();
        Some(FillerPhrase { voice: voice.clone(), text: self.texts[id.0].clone(), wav })
    }

    /// Synthesises the next missing phrase. Dropping the future kills the command.
    pub async fn prepare_next(&self) -> Prepared {
        self.remove_evicted().await;
        let Some(spoken) = self.next() else { return Prepared::Nothing };
        let (voice, PhraseId(index)) = &spoken;
        let problem = match self.make(&spoken).await {
            Ok(()) => return Prepared::Made,
            Err(problem) => problem,
        };
        self.lock().phrases.failed(voice, (self.clock)());
        tracing::warn!(%voice, phrase = index, problem, "synthesis failed: tried again later");
        Prepared::Failed
    }

    async fn make(&self, spoken: &VoicePhrase) -> Result<(), String> {
        let run = self.command.run(&spoken.0, &self.texts[spoken.1.0]).await;
        let output = run.map_err(|error| error.to_string())?;
        let checked = tokio::task::spawn_blocking(move || wav::checked(output)).await;
        let checked = checked.map_err(|error| error.to_string())?;
        let wav = Bytes::from(checked.map_err(|error| error.to_string())?);
        if !self.lock().hold(spoken, wav.clone()) {
            return Ok(()); // The budget is used up; the command did not fail.
        }
        let (phrase_cache, spoken) = (self.phrase_cache.clone(), spoken.clone());
        let written = tokio::task::spawn_blocking(move || phrase_cache.write(&spoken, &wav)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "a phrase is in memory only: it could not be written");
        }
        Ok(())
    }

    async fn remove_evicted(&self) {
        let evicted = std::mem::take(&mut self.lock().evicted);
        if evicted.is_empty() {
            return;
        }
        let phrase_cache = self.phrase_cache.clone();
        let removed = move || evicted.iter().for_each(|spoken| phrase_cache.remove(spoken));
        let _ = tokio::task::spawn_blocking(removed).await; // An error: the daemon ends.
    }

    fn next(&self) -> Option<VoicePhrase> {
        self.lock().phrases.next((self.clock)())
    }

    /// Waits until a phrase may be missing.
    async fn wait(&self) {
        let (now, next_retry) = {
            let (state, now) = (self.lock(), (self.clock)());
            if state.phrases.next(now).is_some() || !state.evicted.is_empty() {
                return;
            }
            (now, state.phrases.next_retry(now))
        };
        let until = next_retry.map_or(MAX_WAIT, |retry| now.age(retry)).min(MAX_WAIT);
        let _ = tokio::time::timeout(until, self.wanted.notified()).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn want(&mut self, voice: &VoiceName, now: Timestamp) {
        let evicted = self.phrases.want(voice, now);
        self.forget(evicted);
    }

    /// Returns whether the budget has room.
    fn hold(&mut self, spoken: &VoicePhrase, wav: Bytes) -> bool {
        let Ok(evicted) = self.phrases.insert(spoken, wav.len() as u64) else { return false };
        self.forget(evicted);
        self.sounds.insert(spoken.clone(), wav);
        true
    }

    fn forget(&mut self, evicted: Vec<VoicePhrase>) {
        for spoken in evicted {
            self.sounds.remove(&spoken);
            self.evicted.push(spoken);
        }
    }
}

/// Synthesises missing phrases while the engine is idle, until it stops.
pub async fn run(filler: Arc<Filler>, engine: Engine) {
    filler.load().await;
    loop {
        filler.wait().await;
        if until_idle(&engine).await.is_err() {
            return;
        }
        tokio::select! {
            _ = filler.prepare_next() => {}
            () = until_busy(&engine) => {}
        }
    }
}

async fn until_busy(engine: &Engine) {
    loop {
        tokio::time::sleep(BUSY_CHECK_INTERVAL).await;
        if !matches!(is_idle(engine).await, Ok(true)) {
            return;
        }
    }
}
