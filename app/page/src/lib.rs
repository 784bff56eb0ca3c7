//! The page's files as a release build embeds them.
//!
//! - Scripts and styles have no comments and no indents (`slim`).
//! - A style has the text of those that it imports, and `app.js` that of the modules that it imports
//!   (`bundle`): Chromium takes 2 to 3 ms for each further module.
//! - Pure: `hob-daemon`'s `build.rs` reads and writes the files.

mod bundle;
mod exports;
mod slim;

use std::collections::BTreeMap;

pub use bundle::in_order as modules;

/// Texts of files by their names in the page, such as `chat/list.js`.
pub type Files = BTreeMap<String, String>;

/// The page's entry point.
pub const ENTRY: &str = "app.js";

/// The page of `written`, which are the files of `app/ui`.
///
/// # Panics
///
/// Where a script cannot be parsed, or imports or exports in a way that `bundle` does not know.
pub fn embedded(written: &Files) -> Files {
    let joined = |name: &String| slim::slim(name, &slim::joined(name, written));
    let slim = written.keys().map(|name| (name.clone(), joined(name))).collect();
    bundle::with_bundle(slim, ENTRY)
}
