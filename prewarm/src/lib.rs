//! Decides what should be warm, and what need not be hot any longer. Pure: no threads, no clock.
//!
//! [`planner`] takes events and the time and says what to do and when to ask again; the daemon's
//! loop does it.

pub mod name;
pub mod planner;

pub use name::{ProfileName, ProfileNameError};
pub use planner::{Action, Event, Planner, Settings};
