//! Chooses the short phrases of the voice while the model thinks: which to synthesise next, which
//! to say, and which to evict.
//!
//! - Pure: this module has the names, sizes and times of the sounds; the caller has the sounds.
//! - A voice never says the same phrase twice in a row.
//! - The cached sound NEVER exceeds the budget. Phrases of the least recently wanted voice are
//!   evicted first; a voice never evicts its own, so none is synthesised only to be evicted.
//! - Silent sound is not cached. After a failure the voice pauses, twice as long each time; the pause
//!   ends when the clock steps back behind the failure.
//! - Voices come from clients: at most [`MAX_VOICES`] are tracked.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_slots::Timestamp;

/// More than a household uses; a client that invents names must not fill memory.
pub const MAX_VOICES: usize = 8;

/// From the first failure of a voice to the retry; doubles with each further failure.
const FIRST_RETRY: Duration = Duration::from_secs(60);
const MAX_RETRY: Duration = Duration::from_secs(24 * 3600);

/// -60 dB of full scale. Softly recorded speech is above -40 dB; the output of a failed synthesiser
/// (zeros, or dither of one step) is below -85 dB.
const MIN_LOUDNESS: f64 = 0.001;

/// Whether the samples are inaudible.
pub fn is_silent(samples: &[i16]) -> bool {
    let power: f64 = samples.iter().map(|&sample| f64::from(sample).powi(2)).sum();
    let loudness = (power / samples.len().max(1) as f64).sqrt() / f64::from(i16::MAX);
    loudness < MIN_LOUDNESS
}

/// A synthesiser's name of a voice. It becomes an argument of a command, and is never a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VoiceName(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoiceNameError;

impl std::fmt::Display for VoiceNameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the name of a voice has 1 to 64 letters, digits and `._+-`, and begins with a letter \
             or a digit",
        )
    }
}

impl std::error::Error for VoiceNameError {}

impl std::str::FromStr for VoiceName {
    type Err = VoiceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let named = begins && text.len() <= 64 && text.chars().all(fits);
        named.then(|| Self(text.to_owned())).ok_or(VoiceNameError)
    }
}

impl VoiceName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for VoiceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A phrase: its index in the setting `voice_phrases`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhraseId(pub usize);

pub type VoicePhrase = (VoiceName, PhraseId);

/// The index of the cached sounds, by voice and phrase.
#[derive(Debug)]
pub struct Phrases {
    count: usize,
    budget_bytes: u64,
    cached_bytes: u64, // Always the sum over `voices`.
    voices: BTreeMap<VoiceName, Voice>,
}

#[derive(Debug, Default)]
struct Voice {
    wanted: Timestamp,
    cached: BTreeMap<PhraseId, Cached>,
    last: Option<PhraseId>,
    /// Counts the phrases said, so that the least recently said one comes next.
    said: u64,
    failures: u32,
    failed_at: Timestamp,
    retry: Timestamp,
    /// The budget had no room for another phrase.
    full: bool,
}

#[derive(Debug)]
struct Cached {
    bytes: u64,
    said: u64,
}

impl Phrases {
    /// An empty index for `count` phrases a voice.
    pub fn new(count: usize, budget_bytes: u64) -> Self {
        Self { count, budget_bytes, cached_bytes: 0, voices: BTreeMap::new() }
    }

    /// Makes this voice the most recently wanted one. Returns the phrases of the voice that it
    /// evicts when there are [`MAX_VOICES`] already.
    pub fn want(&mut self, name: &VoiceName, now: Timestamp) -> Vec<VoicePhrase> {
        let mut evicted = Vec::new();
        if !self.voices.contains_key(name) && self.voices.len() >= MAX_VOICES {
            let oldest = self.voices.iter().min_by_key(|(_, voice)| voice.wanted);
            let oldest = oldest.map(|(name, _)| name.clone()).expect("there are voices");
            let ids: Vec<_> = self.voices[&oldest].cached.keys().copied().collect();
            evicted.extend(ids.into_iter().map(|id| self.evict(&oldest, id)));
            self.voices.remove(&oldest);
        }
        let latest = self.voices.iter().max_by_key(|(_, voice)| voice.wanted);
        let newly = latest.is_none_or(|(latest, _)| latest != name);
        let voice = self.voices.entry(name.clone()).or_default();
        voice.wanted = voice.wanted.max(now);
        voice.full &= !newly; // It may evict others now.
        evicted
    }

    /// The phrase to synthesise next: the first missing one of the most recently wanted voice.
    pub fn next(&self, now: Timestamp) -> Option<VoicePhrase> {
        let mut voices: Vec<_> =
            self.voices.iter().filter(|(_, v)| v.may_synthesise(now)).collect();
        voices.sort_by_key(|(_, voice)| std::cmp::Reverse(voice.wanted));
        voices.into_iter().find_map(|(name, voice)| {
            let missing = (0..self.count).map(PhraseId).find(|id| !voice.cached.contains_key(id));
            missing.map(|id| (name.clone(), id))
        })
    }

    /// The next retry of a voice after a failure.
    pub fn next_retry(&self, now: Timestamp) -> Option<Timestamp> {
        let waiting = self.voices.values().filter(|voice| !voice.full && voice.pauses(now));
        waiting.filter(|voice| voice.cached.len() < self.count).map(|voice| voice.retry).min()
    }

    /// Adds a sound of `bytes`; returns the phrases that it evicts.
    ///
    /// # Errors
    /// The voice is not tracked, or only voices wanted as recently could make room.
    pub fn insert(&mut self, spoken: &VoicePhrase, bytes: u64) -> Result<Vec<VoicePhrase>, NoRoom> {
        let (name, id) = spoken;
        let wanted = self.voices.get(name).ok_or(NoRoom)?.wanted;
        let mut evicted = Vec::new();
        let older = self.voices.iter().filter(|(other, v)| *other != name && v.wanted < wanted);
        let freeable: u64 =
            older.flat_map(|(_, voice)| voice.cached.values()).map(|sound| sound.bytes).sum();
        if self.cached_bytes - freeable + bytes > self.budget_bytes {
            self.voices.get_mut(name).expect("it was wanted").full = true;
            return Err(NoRoom);
        }
        while self.cached_bytes + bytes > self.budget_bytes {
            let oldest = self.oldest_except(name).expect("enough can be freed, as was computed");
            evicted.push(self.evict(&oldest.0, oldest.1));
            self.voices.get_mut(&oldest.0).expect("it has a phrase").full = true;
        }
        let voice = self.voices.get_mut(name).expect("it was wanted");
        (voice.failures, voice.retry) = (0, Timestamp(0));
        self.cached_bytes += bytes;
        if let Some(before) = voice.cached.insert(*id, Cached { bytes, said: 0 }) {
            self.cached_bytes -= before.bytes;
        }
        Ok(evicted)
    }

    /// The synthesiser failed with this voice, or its sound was silent.
    pub fn failed(&mut self, name: &VoiceName, now: Timestamp) {
        let Some(voice) = self.voices.get_mut(name) else { return };
        let wait = FIRST_RETRY.saturating_mul(1 << voice.failures.min(20)).min(MAX_RETRY);
        voice.failures += 1;
        (voice.failed_at, voice.retry) = (now, now.after(wait));
    }

    /// The phrase to say: the least recently said one, but not the last one again; `None` when
    /// there is no other.
    pub fn choose(&mut self, name: &VoiceName) -> Option<PhraseId> {
        let voice = self.voices.get_mut(name)?;
        let last = voice.last;
        let others = voice.cached.iter_mut().filter(|(id, _)| Some(**id) != last);
        let (id, cached) = others.min_by_key(|(id, cached)| (cached.said, **id))?;
        voice.said += 1;
        cached.said = voice.said;
        voice.last = Some(*id);
        voice.last
    }

    pub fn cached_bytes(&self) -> u64 {
        self.cached_bytes
    }

    /// The least recently said phrase of the least recently wanted voice other than `except`.
    fn oldest_except(&self, except: &VoiceName) -> Option<VoicePhrase> {
        let others = self.voices.iter().filter(|(name, v)| *name != except && !v.cached.is_empty());
        let (name, voice) = others.min_by_key(|(_, voice)| voice.wanted)?;
        let (id, _) = voice.cached.iter().min_by_key(|(_, cached)| cached.said)?;
        Some((name.clone(), *id))
    }

    fn evict(&mut self, name: &VoiceName, id: PhraseId) -> VoicePhrase {
        let voice = self.voices.get_mut(name).expect("the caller found it");
        self.cached_bytes -= voice.cached.remove(&id).expect("the caller found it").bytes;
        (name.clone(), id)
    }
}

impl Voice {
    fn may_synthesise(&self, now: Timestamp) -> bool {
        !self.full && !self.pauses(now)
    }

    fn pauses(&self, now: Timestamp) -> bool {
        (self.failed_at..self.retry).contains(&now)
    }
}

/// The sound does not fit into the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

#[cfg(test)]
mod tests;
