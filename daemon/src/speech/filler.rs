//! Short phrases that are at hand when the user has spoken and the model still thinks.
//!
//! - Saying one takes it from memory: no file is read and no command runs.
//! - They are synthesised one at a time while nothing else computes; a turn that comes breaks a
//!   synthesis off, which is not counted as a failure.
//! - What fails is logged once for each attempt and never kept; the silence stays as it was.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use hob_prewarm::phrase::{MAX_VOICES, PhraseId, Phrases, VoiceName, VoicePhrase};
use hob_runtime::Engine;
use hob_slots::Timestamp;
use tokio::sync::Notify;

use super::command::VoiceCommand;
use super::phrase_cache::{FoundVoice, KeptPhrases};
use super::wav;
use crate::clock::Clock;
use crate::warm::idle::{is_idle, until_idle};

/// While a command runs, whether someone wants the processor is looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Wall time may jump while a laptop sleeps, which no timer notices: look at it this often.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// What a filler is made of.
pub struct Options {
    /// What synthesises.
    pub command: VoiceCommand,
    /// The voice of those who name none.
    pub voice: VoiceName,
    /// What may be said.
    pub phrases: Vec<String>,
    /// The most sound that is kept, in memory and on disk.
    pub budget_bytes: u64,
    /// Where the directory of phrases lies.
    pub data_dir: PathBuf,
    /// What tells the time.
    pub clock: Clock,
}

/// A phrase to play now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Whose voice it is.
    pub voice: VoiceName,
    /// What it says.
    pub text: String,
    /// The sound.
    pub wav: Bytes,
}

/// How an attempt to prepare a phrase came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// It is at hand.
    Made,
    /// It is not, for a reason that was logged.
    Failed,
    /// There is nothing to do now.
    Nothing,
}

/// The phrases of all voices.
pub struct Filler {
    command: VoiceCommand,
    voice: VoiceName,
    texts: Vec<String>,
    clock: Clock,
    phrase_cache: Arc<KeptPhrases>,
    state: Mutex<State>,
    wanted: Notify,
}

struct State {
    phrases: Phrases,
    sounds: BTreeMap<VoicePhrase, Bytes>,
    /// What is to be removed from disk.
    left: Vec<VoicePhrase>,
}

impl Filler {
    /// Nothing is at hand until [`Filler::load`] or [`Filler::prepare_next`] has run.
    pub fn new(options: Options) -> Self {
        let Options { command, voice, phrases: texts, budget_bytes, data_dir, clock } = options;
        let mut phrases = Phrases::new(texts.len(), budget_bytes);
        phrases.want(&voice, clock());
        let phrase_cache = Arc::new(KeptPhrases::new(&data_dir, &command, &texts));
        let state = Mutex::new(State { phrases, sounds: BTreeMap::new(), left: Vec::new() });
        Self { command, voice, texts, clock, phrase_cache, state, wanted: Notify::new() }
    }

    /// Takes up what was made before.
    pub async fn load(&self) {
        let phrase_cache = self.phrase_cache.clone();
        let found = match tokio::task::spawn_blocking(move || phrase_cache.open()).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::warn!(%error, "phrases of earlier runs cannot be read: they are made anew");
                return;
            }
            Err(_) => return, // The daemon ends.
        };
        let mut state = self.lock();
        // The usual voice is one of them, whether anything of it was found or not.
        let mut others = MAX_VOICES - 1;
        for FoundVoice { name, made, sounds } in found {
            let known = name == self.voice || others > 0;
            if known && name != self.voice {
                others -= 1;
                state.want(&name, made);
            }
            for (id, sound) in sounds {
                let spoken = (name.clone(), id);
                if !known || !state.hold(&spoken, sound.into()) {
                    state.left.push(spoken);
                }
            }
        }
    }

    /// What to say now, in this voice or the usual one. `None` when nothing is at hand but what was
    /// said last; it will be made.
    pub fn say(&self, voice: Option<&VoiceName>) -> Option<Filled> {
        let voice = voice.unwrap_or(&self.voice);
        let mut state = self.lock();
        state.want(voice, (self.clock)());
        self.wanted.notify_one();
        let id = state.phrases.say(voice)?;
        let wav = state.sounds[&(voice.clone(), id)].clone();
        Some(Filled { voice: voice.clone(), text: self.texts[id.0].clone(), wav })
    }

    /// Synthesises the next phrase that is missing. Dropping the future ends the command.
    pub async fn prepare_next(&self) -> Prepared {
        self.remove_left().await;
        let Some(spoken) = self.next() else { return Prepared::Nothing };
        let (voice, PhraseId(index)) = &spoken;
        let problem = match self.make(&spoken).await {
            Ok(()) => return Prepared::Made,
            Err(problem) => problem,
        };
        self.lock().phrases.failed(voice, (self.clock)());
        tracing::warn!(%voice, phrase = index, problem, "no sound: tried again later");
        Prepared::Failed
    }

    async fn make(&self, spoken: &VoicePhrase) -> Result<(), String> {
        let wav = self.command.run(&spoken.0, &self.texts[spoken.1.0]).await;
        let wav = wav.map_err(|error| error.to_string())?;
        let checked = tokio::task::spawn_blocking(move || wav::checked(wav)).await;
        let checked = checked.map_err(|error| error.to_string())?;
        let wav = Bytes::from(checked.map_err(|error| error.to_string())?);
        if !self.lock().hold(spoken, wav.clone()) {
            return Ok(()); // There is no room, which is no failure of the command's.
        }
        let (phrase_cache, spoken) = (self.phrase_cache.clone(), spoken.clone());
        let written = tokio::task::spawn_blocking(move || phrase_cache.write(&spoken, &wav)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "a phrase is in memory alone: it could not be written");
        }
        Ok(())
    }

    async fn remove_left(&self) {
        let left = std::mem::take(&mut self.lock().left);
        if left.is_empty() {
            return;
        }
        let phrase_cache = self.phrase_cache.clone();
        let removed = move || left.iter().for_each(|spoken| phrase_cache.remove(spoken));
        let _ = tokio::task::spawn_blocking(removed).await; // An error: the daemon ends.
    }

    fn next(&self) -> Option<VoicePhrase> {
        self.lock().phrases.next((self.clock)())
    }

    /// Ready when there may be something to prepare.
    async fn wait(&self) {
        let (now, next_retry) = {
            let (state, now) = (self.lock(), (self.clock)());
            if state.phrases.next(now).is_some() || !state.left.is_empty() {
                return;
            }
            (now, state.phrases.next_retry(now))
        };
        let until = next_retry.map_or(LONGEST_WAIT, |retry| now.age(retry)).min(LONGEST_WAIT);
        let _ = tokio::time::timeout(until, self.wanted.notified()).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn want(&mut self, voice: &VoiceName, now: Timestamp) {
        let left = self.phrases.want(voice, now);
        self.forget(left);
    }

    /// False when there is no room.
    fn hold(&mut self, spoken: &VoicePhrase, wav: Bytes) -> bool {
        let Ok(left) = self.phrases.insert(spoken, wav.len() as u64) else { return false };
        self.forget(left);
        self.sounds.insert(spoken.clone(), wav);
        true
    }

    fn forget(&mut self, left: Vec<VoicePhrase>) {
        for spoken in left {
            self.sounds.remove(&spoken);
            self.left.push(spoken);
        }
    }
}

/// Prepares what is missing whenever nobody speaks, until the engine stops.
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
        tokio::time::sleep(LOOK_EVERY).await;
        if !matches!(is_idle(engine).await, Ok(true)) {
            return;
        }
    }
}
