//! Short phrases that are said while the model thinks: which to synthesise next, which to say, and
//! which leave when they take too much room.
//!
//! - Pure: sound lies elsewhere; here are its names, sizes and times.
//! - Of one voice the same phrase is never said twice in a row.
//! - What is held never exceeds the budget. Phrases of the voice that was wanted longest ago leave
//!   first; a voice never displaces its own, so nothing is made only to be thrown away.
//! - Sound that is silent is not held. After a failure its voice is left alone for a while, longer
//!   each time.
//! - Voices come from outside: no more than [`MOST_VOICES`] are remembered.

use std::collections::BTreeMap;
use std::time::Duration;

use hob_slots::Timestamp;

/// A household has a handful; a client that makes names up must not fill memory.
pub const MOST_VOICES: usize = 8;

/// Until a voice that failed is tried again; twice as long after each further failure.
const FIRST_RETRY: Duration = Duration::from_secs(60);
const LONGEST_RETRY: Duration = Duration::from_secs(24 * 3600);

/// -60 dB of full scale. Speech lies above -40 dB, however softly it was recorded; what a
/// synthesiser leaves when it fails (zeros, or dither of one step) lies below -85 dB.
const QUIETEST: f64 = 0.001;

/// Whether nobody would hear these samples.
pub fn is_silent(samples: &[i16]) -> bool {
    let power: f64 = samples.iter().map(|&sample| f64::from(sample).powi(2)).sum();
    let loudness = (power / samples.len().max(1) as f64).sqrt() / f64::from(i16::MAX);
    loudness < QUIETEST
}

/// The name of a voice, as a synthesiser takes it: it becomes an argument and is never a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VoiceName(String);

/// This is no name of a voice.
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
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for VoiceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A phrase: its place in the list of those that are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhraseId(pub usize);

/// What a voice says.
pub type Spoken = (VoiceName, PhraseId);

/// Knows what is held.
#[derive(Debug)]
pub struct Phrases {
    count: usize,
    budget_bytes: u64,
    held_bytes: u64, // Always the sum over `voices`.
    voices: BTreeMap<VoiceName, Voice>,
}

#[derive(Debug, Default)]
struct Voice {
    wanted: Timestamp,
    held: BTreeMap<PhraseId, Held>,
    last: Option<PhraseId>,
    /// Counts what was said, so that the phrase that was said longest ago comes next.
    said: u64,
    failures: u32,
    retry: Timestamp,
    /// There was no room for another phrase.
    full: bool,
}

#[derive(Debug)]
struct Held {
    bytes: u64,
    said: u64,
}

impl Phrases {
    /// For `count` phrases, of which sound of `budget_bytes` may be held.
    pub fn new(count: usize, budget_bytes: u64) -> Self {
        Self { count, budget_bytes, held_bytes: 0, voices: BTreeMap::new() }
    }

    /// Someone wants this voice: what is missing of it will be made. Returns what leaves, because a
    /// voice is forgotten for it.
    pub fn want(&mut self, name: &VoiceName, now: Timestamp) -> Vec<Spoken> {
        let mut left = Vec::new();
        if !self.voices.contains_key(name) && self.voices.len() >= MOST_VOICES {
            let oldest = self.voices.iter().min_by_key(|(_, voice)| voice.wanted);
            let oldest = oldest.map(|(name, _)| name.clone()).expect("there are voices");
            let ids: Vec<_> = self.voices[&oldest].held.keys().copied().collect();
            left.extend(ids.into_iter().map(|id| self.drop_held(&oldest, id)));
            self.voices.remove(&oldest);
        }
        let latest = self.voices.iter().max_by_key(|(_, voice)| voice.wanted);
        let newly = latest.is_none_or(|(latest, _)| latest != name);
        let voice = self.voices.entry(name.clone()).or_default();
        voice.wanted = voice.wanted.max(now);
        voice.full &= !newly; // It may displace others now.
        left
    }

    /// What to make next: of the voice that was wanted last, the first phrase that is missing.
    pub fn next(&self, now: Timestamp) -> Option<Spoken> {
        let mut voices: Vec<_> = self.voices.iter().filter(|(_, v)| v.may_make(now)).collect();
        voices.sort_by_key(|(_, voice)| std::cmp::Reverse(voice.wanted));
        voices.into_iter().find_map(|(name, voice)| {
            let missing = (0..self.count).map(PhraseId).find(|id| !voice.held.contains_key(id));
            missing.map(|id| (name.clone(), id))
        })
    }

    /// When a voice that failed may be tried again; `None` when none waits for that.
    pub fn next_retry(&self, now: Timestamp) -> Option<Timestamp> {
        let waiting = self.voices.values().filter(|voice| !voice.full && voice.retry > now);
        waiting.filter(|voice| voice.held.len() < self.count).map(|voice| voice.retry).min()
    }

    /// Sound of `bytes` was made, or found from an earlier run: it is held, and what is returned
    /// leaves.
    ///
    /// # Errors
    /// When nobody wants the voice, or only what is wanted as much could make room.
    pub fn hold(&mut self, spoken: &Spoken, bytes: u64) -> Result<Vec<Spoken>, NoRoom> {
        let (name, id) = spoken;
        let wanted = self.voices.get(name).ok_or(NoRoom)?.wanted;
        let mut left = Vec::new();
        let older = self.voices.iter().filter(|(other, v)| *other != name && v.wanted < wanted);
        let freeable: u64 = older.flat_map(|(_, voice)| voice.held.values()).map(|h| h.bytes).sum();
        if self.held_bytes - freeable + bytes > self.budget_bytes {
            self.voices.get_mut(name).expect("it was wanted").full = true;
            return Err(NoRoom);
        }
        while self.held_bytes + bytes > self.budget_bytes {
            let oldest = self.longest_ago(name).expect("enough can be freed, as was computed");
            left.push(self.drop_held(&oldest.0, oldest.1));
            self.voices.get_mut(&oldest.0).expect("it held a phrase").full = true;
        }
        let voice = self.voices.get_mut(name).expect("it was wanted");
        (voice.failures, voice.retry) = (0, Timestamp(0));
        self.held_bytes += bytes;
        if let Some(before) = voice.held.insert(*id, Held { bytes, said: 0 }) {
            self.held_bytes -= before.bytes;
        }
        Ok(left)
    }

    /// Making sound with this voice failed, or the sound was silent.
    pub fn failed(&mut self, name: &VoiceName, now: Timestamp) {
        let Some(voice) = self.voices.get_mut(name) else { return };
        let wait = FIRST_RETRY.saturating_mul(1 << voice.failures.min(20)).min(LONGEST_RETRY);
        voice.failures += 1;
        voice.retry = now.after(wait);
    }

    /// What to say: the phrase that was said longest ago, and not the last one again. `None` when
    /// there is no other.
    pub fn say(&mut self, name: &VoiceName) -> Option<PhraseId> {
        let voice = self.voices.get_mut(name)?;
        let last = voice.last;
        let others = voice.held.iter_mut().filter(|(id, _)| Some(**id) != last);
        let (id, held) = others.min_by_key(|(id, held)| (held.said, **id))?;
        voice.said += 1;
        held.said = voice.said;
        voice.last = Some(*id);
        voice.last
    }

    /// Bytes of sound that are held.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Of the voice that was wanted longest ago, but for `except`, the phrase said longest ago.
    fn longest_ago(&self, except: &VoiceName) -> Option<Spoken> {
        let others = self.voices.iter().filter(|(name, v)| *name != except && !v.held.is_empty());
        let (name, voice) = others.min_by_key(|(_, voice)| voice.wanted)?;
        let (id, _) = voice.held.iter().min_by_key(|(_, held)| held.said)?;
        Some((name.clone(), *id))
    }

    fn drop_held(&mut self, name: &VoiceName, id: PhraseId) -> Spoken {
        let voice = self.voices.get_mut(name).expect("the caller found it");
        self.held_bytes -= voice.held.remove(&id).expect("the caller found it").bytes;
        (name.clone(), id)
    }
}

impl Voice {
    fn may_make(&self, now: Timestamp) -> bool {
        !self.full && self.retry <= now
    }
}

/// What should be held does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

#[cfg(test)]
mod tests;
