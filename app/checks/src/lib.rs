//! Checks of the app's page: a real browser, a real hobd, and what a person does with them.
//!
//! - Everything speaks to the outside of things: HTTP to hobd, WebDriver to the browser. So the page
//!   is checked as it is served, with its security policy and its timing.
//! - Each check has its own hobd, its own directories and its own browser, and all of them end with
//!   it, also when it fails. Nothing is left to the next one.
//! - Every wait has a bound and says what it waited for. A failure leaves a picture of the page in
//!   `target/checks/`.
//! - A browser that is missing fails the check and names the package; nothing is skipped.
//!
//! Reading order: [`tools`] (what is found where), [`process`], [`hobd`], [`browser`] (WebDriver),
//! [`page`], [`hand`] and [`chat`] (what a person sees and can do), [`keys`], [`axe`], [`canary`] and [`hostile`],
//! [`desktop`] (the app in its window, on a [`screen`] and a [`bus`]); then `tests/`.

pub mod axe;
pub mod browser;
pub mod bus;
pub mod canary;
pub mod chat;
pub mod desktop;
pub mod hand;
pub mod hobd;
pub mod hostile;
pub mod keys;
pub mod page;
pub mod screen;
pub mod tools;

pub use browser::{Browser, Look};
pub use hobd::{Hobd, Model};
pub use page::Page;
