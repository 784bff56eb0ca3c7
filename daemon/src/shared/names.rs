//! The names of files in the shared tier.
//!
//! ```text
//! text/<conversation>.json                        its text, and the name of its last writer
//! kv/<fingerprint>/<conversation>/slot.bin        its slot file
//! kv/<fingerprint>/<conversation>/<object>.kv     each of its objects
//! ```
//!
//! - Each conversation has its objects beside it, also those that others have: a deletion is then the
//!   deletion of a folder, and no daemon must know what the others refer to.
//! - In an encrypted tier, conversations and objects have hidden names, as in the slots directory.

use hob_slots::store::Sealing;
use hob_slots::{BlockId, ConversationId, ModelHash};
use sha2::{Digest, Sha256};

/// The folder of all KV.
pub const KV: &str = "kv";

pub fn text(sealing: &Sealing, id: &ConversationId) -> String {
    format!("text/{}.json", stem(sealing, id))
}

/// The folder of a conversation's KV, with its `/`.
pub fn kv(sealing: &Sealing, model: ModelHash, id: &ConversationId) -> String {
    kv_of(sealing, &model.to_string(), id)
}

/// A conversation's folder under `model`, which names a folder in [`KV`].
pub fn kv_of(sealing: &Sealing, model: &str, id: &ConversationId) -> String {
    format!("{KV}/{model}/{}/", stem(sealing, id))
}

/// The slot file, within a conversation's folder.
pub const SLOT: &str = "slot.bin";

/// The name of an object, within a conversation's folder.
pub fn object(sealing: &Sealing, id: BlockId) -> String {
    format!("{}.kv", sealing.object(id))
}

/// Names that a store would have to escape are hashed.
fn stem(sealing: &Sealing, id: &ConversationId) -> String {
    let stem = sealing.conversation(id);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if stem.bytes().all(is_plain) {
        return stem;
    }
    let digest: [u8; 32] = Sha256::digest(id.as_str()).into();
    digest.iter().fold("h-".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
