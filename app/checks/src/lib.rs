//! End-to-end checks of the app's page: a real browser, a real hobd, and the input of a user.
//!
//! - Checks use public interfaces only: HTTP to hobd, WebDriver to the browser. They test the page as
//!   hobd serves it, with its security policy and its timing.
//! - Each check has its own hobd, directories and browser, which end with it, also when it fails. A browser
//!   that has served a check may serve another one once it is cleared.
//! - Every wait has a bound, and its panic says what it waited for. A failed check saves a screenshot in
//!   `target/checks/`.
//! - A missing browser fails the check and names the package; no check is skipped.
//!
//! Reading order: [`tools`] (programs and paths), [`hobd`], [`browser`] (WebDriver), [`page`], [`input`]
//! and [`chat`] (what a user sees and does), [`openings`] (what checks begin with), [`answers`], [`keys`], [`axe`], [`canary`] and [`hostile`], [`desktop`]
//! (the app in its window, on a [`screen`] and a [`bus`]); then `tests/`.

pub mod answers;
pub mod axe;
pub mod browser;
pub mod bus;
pub mod canary;
pub mod chat;
mod chromium;
pub mod desktop;
pub mod hobd;
pub mod hostile;
pub mod input;
pub mod keys;
pub mod openings;
pub mod page;
pub mod screen;
mod session;
pub mod tools;

pub use browser::{Browser, Look};
pub use hobd::{Hobd, Model};
pub use page::Page;
