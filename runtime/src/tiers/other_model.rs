//! "Why did it miss?": the conversation is kept, but under another fingerprint.

use hob_slots::store::Store;
use hob_slots::{ConversationId, ModelHash};

use crate::miss::MissReason;

/// Says which other fingerprint keeps the conversation and what differs between the two.
pub(super) fn kept_under(
    store: &Store,
    ours: ModelHash,
    conversation: &ConversationId,
) -> Option<MissReason> {
    let reader = store.reader();
    let others = reader.models().ok()?.into_iter().filter(|&model| model != ours);
    let theirs = others.into_iter().find(|&model| reader.get_slot(model, conversation).is_ok())?;
    let fields = match (reader.read_model_toml(ours), reader.read_model_toml(theirs)) {
        (Ok(ours), Ok(theirs)) => ours.difference(&theirs).join(", "),
        _ => "it is not known what".to_owned(),
    };
    Some(MissReason::OtherFingerprint { found: theirs, fields })
}
