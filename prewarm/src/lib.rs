//! Decides what should be warm, and what need not be hot any longer. Pure: no threads, no clock.
//!
//! [`name`] is what profiles are called. [`profile`] is what prompts begin with, as its author wrote it; [`watch`] tells when its files
//! are worth a look. [`planner`] takes events and the time and says what to do and when to ask
//! again; the daemon's loop does it.

pub mod name;
pub mod planner;
pub mod profile;
pub mod watch;

pub use name::{ProfileName, ProfileNameError};
pub use planner::{Action, Event, Planner, Settings};
pub use profile::{Outline, Profile, ProfileError};
pub use watch::{Debounce, Patience};
