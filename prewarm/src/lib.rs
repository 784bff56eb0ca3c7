//! Decides which prefixes to prewarm, and which conversations to park. Pure: no threads, no clock.
//!
//! Reading order: [`name`] is a profile's name; [`profile`] is the first part of its prompts, as
//! the author wrote it; [`watch`] debounces changes of its files. [`planner`] takes events and the
//! time, and returns actions and the time of its next wake-up; the daemon's loop executes them.
//! [`keepalive`] is the planner's rule for warm prefixes, and [`prefix`] their state as others see
//! it. [`learned`] finds the beginnings of prompts that should be warm without a profile. Two
//! subjects stand apart: [`phrase`] chooses the phrases that the voice says while the model
//! thinks, and [`utterance`] decides what to prefill speculatively while the user still speaks.

pub mod keepalive;
pub mod learned;
pub mod name;
pub mod phrase;
pub mod planner;
pub mod prefix;
pub mod profile;
pub mod utterance;
pub mod watch;

pub use keepalive::{Battery, Keepalive};
pub use learned::{LearnedLimits, LearnedName, LearnedPrefix, Learner};
pub use name::{ProfileName, ProfileNameError};
pub use planner::{Action, Event, Planner, Settings, StayLoaded};
pub use prefix::{
    PrefixName, PrefixState, TokenOrigin, TokenOrigins, TrackedPrefix, WarmFailure, Warmed,
};
pub use profile::{Outline, Profile, ProfileError};
pub use utterance::{Speculation, Utterance, UtteranceEvent};
pub use watch::{Debounce, DebounceTimes};
