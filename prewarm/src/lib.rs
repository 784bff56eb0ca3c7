//! Decides what should be warm, and what need not be hot any longer. Pure: no threads, no clock.
//!
//! [`name`] is what profiles are called. [`profile`] is what prompts begin with, as its author wrote
//! it; [`watch`] tells when its files are worth a look. [`planner`] takes events and the time and
//! says what to do and when to ask again; the daemon's loop does it. [`keepalive`] is its rule for
//! what is warm already, [`prefix`] what it tells of each. [`phrase`] is apart from all that: what is
//! said while the model thinks; and so is [`listening`]: what a half-spoken sentence makes certain.

pub mod keepalive;
pub mod listening;
pub mod name;
pub mod phrase;
pub mod planner;
pub mod prefix;
pub mod profile;
pub mod watch;

pub use keepalive::{Battery, Keepalive};
pub use listening::{Ahead, Heard, Listening};
pub use name::{ProfileName, ProfileNameError};
pub use planner::{Action, Event, Planner, Settings};
pub use prefix::{Failed, How, Prefix, PrefixState, Sources, Warmed};
pub use profile::{Outline, Profile, ProfileError};
pub use watch::{Debounce, Patience};
