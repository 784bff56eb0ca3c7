//! Finds a conversation that missed because it was saved under another model fingerprint.

use hob_slots::store::Store;
use hob_slots::{ConversationId, ModelHash};

use crate::miss::MissReason;

/// Names the other fingerprint, and the fields that differ. `beside`: the draft model's, which says
/// nothing.
pub(super) fn saved_under(
    store: &Store,
    ours: ModelHash,
    beside: Option<ModelHash>,
    conversation: &ConversationId,
) -> Option<MissReason> {
    let reader = store.reader();
    let is_other = |model: &ModelHash| *model != ours && Some(*model) != beside;
    let mut others = reader.models().ok()?.into_iter().filter(is_other);
    let theirs = others.find(|&model| reader.get_slot(model, conversation).is_ok())?;
    let fields = match (reader.read_model_toml(ours), reader.read_model_toml(theirs)) {
        (Ok(ours), Ok(theirs)) => ours.difference(&theirs).join(", "),
        _ => "unknown fields".to_owned(),
    };
    Some(MissReason::OtherFingerprint { found: theirs, fields })
}
