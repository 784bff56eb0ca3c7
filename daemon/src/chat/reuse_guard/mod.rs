//! Watches what moved KV costs the answers of profiles, and falls back to exact ones.
//!
//! - Only for profiles that say `reuse = "repaired"` or `beyond = "reanchor"`. A request that says so itself has chosen.
//! - A sample: each answer of a profile that moved KV until [`MIN_COMPARED`] tokens are compared, [`FIRST`] answers
//!   at most, without those whose prompts are hot by then; after that the first since the start, and every
//!   [`EVERY`]th behind it. While the engine is idle, its prompt is answered twice, exactly and with moved KV, and the
//!   distributions are compared. Of a conversation that goes on past the context, the second answer moves the impure
//!   KV that the sample moved.
//! - The exact prompt is computed at the priority of a prefill that any answer interrupts; such a sample waits for
//!   the next idle time. Nothing of it stays.
//! - A profile whose latest samples are beyond its limits falls back until its file has limits that they keep. The
//!   samples outlive a restart with the same model and the same version of Hob.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hob_prewarm::ProfileName;
use hob_prewarm::profile::ReuseLimits;
use hob_runtime::likeness::Likeness;
use hob_runtime::turn::{Reuse, TurnError, TurnRequest};
use hob_runtime::{Engine, Health};
use hob_slots::ModelHash;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::request::ResolvedRequest;
use super::reuse_comparison::{Comparison, compare};
use super::reuse_findings::{Compared, Finding, Findings};
use crate::blocking::compute;
use crate::json_file::JsonFile;
use crate::warm::idle::until_idle;

/// At most as many first answers of a profile are all samples: [`MIN_COMPARED`] tokens of answers of four. Those whose
/// comparisons say nothing because their prompts are hot by then cost little, and count as none.
const FIRST: u64 = 16;

/// Answers of a profile between two later samples.
const EVERY: u64 = 16;

/// The latest samples of a profile decide: as few as have this many compared tokens. Of a model that agrees in 0.98
/// of its tokens, 0.3 % of such windows are below the limit of 0.95.
const WINDOW: usize = 256;

/// Without as many compared tokens, nothing is decided: of fewer, two that differ by chance are too many.
const MIN_COMPARED: usize = 64;

/// Samples that wait. An older one leaves for a newer one.
const WAITING: usize = 4;

/// After an answer, so that the next question of its user comes first.
const PAUSE: Duration = Duration::from_secs(2);

/// What is known of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Answers of the profile that moved KV, since the start.
    pub answers: u64,
    /// Answers that were compared, also before the start.
    pub samples: u64,
    /// Sum over the latest samples.
    pub likeness: Likeness,
    /// Why its answers are exact now.
    pub fell_back: Option<String>,
}

/// The samples of a profile, and what they decided.
#[derive(Debug, Default)]
struct ProfileSamples {
    /// Answers that moved KV, since the start.
    answers: u64,
    samples: u64,
    /// Samples since the start that said nothing, because their prompts were hot by then.
    hot: u64,
    latest: VecDeque<Likeness>,
    limits: ReuseLimits,
    fell_back: Option<String>,
}

/// An answer that is to be compared.
#[derive(Debug)]
struct Sample {
    profile: ProfileName,
    request: TurnRequest,
}

/// Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ReuseGuard {
    profiles: Arc<Mutex<BTreeMap<ProfileName, ProfileSamples>>>,
    waiting: Arc<Mutex<VecDeque<Sample>>>,
    sampled: Arc<Notify>,
    /// `None`: findings end with the process.
    file: Option<Arc<JsonFile>>,
}

/// Which KV that was computed elsewhere a turn uses.
#[derive(Debug)]
pub struct ReuseDecision {
    pub reuse: Reuse,
    pub reanchored: bool,
    /// The profile allows it, and the request says nothing.
    pub is_by_profile: bool,
    /// Why it uses none, although its profile allows it.
    pub exact_because: Option<String>,
}

/// Tells the guard that a turn has moved KV.
#[derive(Debug)]
pub struct Watch {
    guard: ReuseGuard,
    profile: ProfileName,
    request: TurnRequest,
}

impl Watch {
    /// The turn has moved KV.
    pub fn moved(self) {
        let Self { guard, profile, request } = self;
        let mut profiles = guard.profiles.lock();
        let known = profiles.entry(profile.clone()).or_default();
        known.answers += 1;
        if known.is_sampled() {
            drop(profiles);
            let mut waiting = guard.waiting.lock();
            if waiting.len() == WAITING {
                waiting.pop_front();
            }
            waiting.push_back(Sample { profile, request });
            guard.sampled.notify_one();
        }
    }
}

impl ReuseGuard {
    /// With what was found before, of this model.
    pub fn open(directory: &Path, fingerprint: ModelHash) -> Self {
        let file = JsonFile::of(directory, fingerprint);
        let found = file.read::<Findings>().current();
        let known = |(name, finding): (_, Finding)| (name, ProfileSamples::from(finding));
        let profiles: BTreeMap<ProfileName, ProfileSamples> = found.map(known).collect();
        for (profile, known) in &profiles {
            if let Some(why) = &known.fell_back {
                tracing::warn!(%profile, why, "the profile has fallen back to exact KV");
            }
        }
        let profiles = Arc::new(Mutex::new(profiles));
        Self { profiles, file: Some(Arc::new(file)), ..Self::default() }
    }

    /// Writes what is known of the profiles that were compared.
    fn save(&self) {
        let Some(file) = &self.file else { return };
        file.write(|| {
            let profiles = self.profiles.lock();
            let compared = profiles.iter().filter(|(_, known)| known.samples > 0);
            Findings::of(compared.map(|(name, known)| (name, known.finding())))
        });
    }

    /// Decides for the turn of a request, or for one ahead of it: of a profile that has fallen back, both compute the same
    /// tokens. `is_part`: its prompt is a part of a conversation that goes on past the context.
    pub fn decide(&self, resolved: &ResolvedRequest, is_part: bool) -> ReuseDecision {
        let request = &resolved.request;
        let reuses_by_profile = request.reuse.is_none() && resolved.reuse() != Reuse::Exact;
        let reanchors_by_profile = is_part && request.beyond.is_none();
        let is_by_profile = reuses_by_profile || reanchors_by_profile;
        let of_profile = resolved.profile.as_ref().filter(|_| is_by_profile);
        let exact_because =
            of_profile.and_then(|profile| self.refusal(profile, resolved.reuse_limits()));
        let has_fallen_back = exact_because.is_some();
        let reuse =
            if has_fallen_back && reuses_by_profile { Reuse::Exact } else { resolved.reuse() };
        let reanchored = is_part && !(has_fallen_back && reanchors_by_profile);
        ReuseDecision { reuse, reanchored, is_by_profile, exact_because }
    }

    /// Why answers of the profile are exact, although it says otherwise. Other `limits` than before judge its
    /// latest samples again.
    fn refusal(&self, profile: &ProfileName, limits: ReuseLimits) -> Option<String> {
        let mut profiles = self.profiles.lock();
        let known = profiles.get_mut(profile)?;
        if known.limits != limits {
            known.limits = limits;
            known.fell_back = None;
            known.judge(profile);
        }
        known.fell_back.clone()
    }

    /// Watches a turn of the profile. Private ones are not watched: their text is asked for once.
    pub fn watch(&self, profile: &ProfileName, request: &TurnRequest) -> Option<Watch> {
        if request.keep.in_memory == Some(true) {
            return None;
        }
        Some(Watch { guard: self.clone(), profile: profile.clone(), request: request.clone() })
    }

    pub fn watched(&self, profile: &ProfileName) -> Option<Watched> {
        let profiles = self.profiles.lock();
        let known = profiles.get(profile)?;
        Some(Watched {
            answers: known.answers,
            samples: known.samples,
            likeness: known.likeness(),
            fell_back: known.fell_back.clone(),
        })
    }

    /// Forgets what was found of a profile that a client has removed: another one may get its name.
    pub async fn forget(&self, profile: &ProfileName) {
        self.waiting.lock().retain(|sample| sample.profile != *profile);
        let was_known = self.profiles.lock().remove(profile).is_some();
        if was_known {
            let guard = self.clone();
            compute(move || guard.save()).await;
        }
    }

    /// How many of these profiles have fallen back. What was found of one whose file is gone stays: the file may come
    /// back.
    pub fn fallen_back(&self, names: &[ProfileName]) -> usize {
        let profiles = self.profiles.lock();
        let known = names.iter().filter_map(|name| profiles.get(name));
        known.filter(|known| known.fell_back.is_some()).count()
    }

    /// Compares samples while the engine is idle, until it stops.
    pub async fn run(self, engine: Engine) {
        loop {
            self.sampled.notified().await;
            loop {
                tokio::time::sleep(PAUSE).await;
                let Some(sample) = self.waiting.lock().pop_front() else { break };
                if until_idle(&engine).await.is_err() {
                    return;
                }
                if engine.health() != Health::Ok {
                    continue; // Unloaded by now: a sample is no reason to load the weights.
                }
                match compare(&engine, &sample.request).await {
                    Ok(Comparison::Hot) => self.was_hot(&sample.profile),
                    Ok(Comparison::Figures(likeness)) => {
                        self.add(&sample.profile, likeness);
                        let guard = self.clone();
                        compute(move || guard.save()).await;
                    }
                    Err(TurnError::Stopped | TurnError::Dead(_)) => return,
                    // An answer came between: later, unless newer samples have come.
                    Err(TurnError::Superseded) => {
                        let mut waiting = self.waiting.lock();
                        if waiting.len() < WAITING {
                            waiting.push_front(sample);
                        }
                    }
                    Err(error) => tracing::debug!(%error, "an answer was not compared"),
                }
            }
        }
    }

    /// A later answer takes the sample's place.
    fn was_hot(&self, profile: &ProfileName) {
        self.profiles.lock().entry(profile.clone()).or_default().hot += 1;
    }

    fn add(&self, profile: &ProfileName, likeness: Likeness) {
        if likeness.tokens.moved == 0 || likeness.compared == 0 {
            return; // The KV to move is gone, or the answer is empty: nothing was compared.
        }
        let mut profiles = self.profiles.lock();
        let known = profiles.entry(profile.clone()).or_default();
        known.add(likeness);
        let figures = known.likeness();
        tracing::debug!(
            %profile,
            divergence = figures.mean_divergence(),
            agreement = figures.agreement(),
            "compared moved KV with exact"
        );
        known.judge(profile);
    }
}

impl ProfileSamples {
    /// Whether its latest answer is a sample.
    fn is_sampled(&self) -> bool {
        let is_undecided = self.likeness().compared < MIN_COMPARED;
        is_undecided && self.answers <= FIRST + self.hot || (self.answers - 1).is_multiple_of(EVERY)
    }

    fn add(&mut self, likeness: Likeness) {
        self.samples += 1;
        self.latest.push_back(likeness);
        let mut compared = self.likeness().compared;
        while let Some(first) = self.latest.front()
            && compared - first.compared >= WINDOW
        {
            compared -= first.compared;
            self.latest.pop_front();
        }
    }

    fn likeness(&self) -> Likeness {
        self.latest.iter().fold(Likeness::default(), |mut sum, one| {
            sum.add(one);
            sum
        })
    }

    fn finding(&self) -> Finding {
        Finding {
            limits: self.limits,
            samples: self.samples,
            latest: self.latest.iter().map(Compared::from).collect(),
            fell_back: self.fell_back.clone(),
        }
    }

    /// Falls back where the latest samples are beyond the limits.
    fn judge(&mut self, profile: &ProfileName) {
        let figures = self.likeness();
        let (divergence, agreement) = (figures.mean_divergence(), figures.agreement());
        if self.fell_back.is_some()
            || figures.compared < MIN_COMPARED
            || self.limits.are_kept(divergence, agreement)
        {
            return;
        }
        let why = format!(
            "answers of the profile `{profile}` over moved KV differed too much from exact ones: {agreement:.2} of their likeliest \
             tokens agreed (`reuse_limits.agreement` {}), and they diverged by {divergence:.3} nats a token \
             (`reuse_limits.divergence` {})",
            self.limits.agreement, self.limits.divergence
        );
        tracing::warn!(%profile, why, "the profile falls back to exact KV");
        self.fell_back = Some(why);
    }
}

impl From<Finding> for ProfileSamples {
    fn from(found: Finding) -> Self {
        let Finding { limits, samples, latest, fell_back } = found;
        let latest = latest.into_iter().map(Likeness::from).collect();
        Self { answers: 0, samples, hot: 0, latest, limits, fell_back }
    }
}

#[cfg(test)]
mod tests;
