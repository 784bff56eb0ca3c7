//! Conversations as one portable file, for `hob slots export` and `import`.
//!
//! - A tar archive: `manifest.toml`, then `objects/<name>.kv`, then `slots/<number>.bin`. Its files
//!   are not encrypted, also when the directory is.
//! - Import never writes to a path from the archive: it looks entries up in the manifest, decodes
//!   them, and writes them under the names that their content gives them.
//! - Import verifies all bytes before it writes any. A truncated, changed or forged archive changes
//!   nothing.
//! - Import writes objects first and the slot file last, as every save does.
//! - KV cannot be checked against its model without computing it again: trust an archive as far as
//!   you trust its author.

mod content;
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
