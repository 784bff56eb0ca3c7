//! Conversations as one portable file: what `hob slots export` writes and `import` reads.
//!
//! - A tar archive: `manifest.toml` first, then `objects/<name>.kv`, then `slots/<number>.bin`. It
//!   holds files in clear, also when the directory that they come from is sealed.
//! - Nothing is ever unpacked to a path of the archive's choosing: entries are looked up in the
//!   manifest, decoded as files of their kind and written under the names that their content gives
//!   them.
//! - Everything is read and verified before anything is written. An archive that is cut short,
//!   changed or made up changes nothing.
//! - Objects first, slot file last, as with every save.
//! - KV cannot be checked against its model without computing it again: an archive is to be trusted
//!   as far as whoever made it.

mod error;
mod export;
mod import;
mod manifest;
#[cfg(test)]
mod tests;

pub use error::ArchiveError;
pub use export::{Exported, export};
pub use import::{Archive, ImportOptions, Imported, ImportedConversation};
pub use manifest::{Manifest, ManifestEntry};
