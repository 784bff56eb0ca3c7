//! Writes behind: objects first, the record that names them after, in the order of the calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use hob_slots::format::{Object, SlotRecord};
use hob_slots::{BlockId, ConversationId};
use tracing::{debug, warn};

use super::{Counters, Known, Shared, lock};

/// What the keeper does, one after the other.
pub(super) enum Job {
    Object(BlockId, Box<Object>),
    Record(Arc<SlotRecord>),
    /// And what it named.
    Forget(ConversationId, Vec<BlockId>),
    Flush(Sender<()>),
}

pub(super) fn run(shared: &Shared, jobs: &Receiver<Job>) {
    for job in jobs {
        match job {
            Job::Object(id, object) => write_object(shared, id, &object),
            Job::Record(record) => write_record(shared, &record),
            Job::Forget(conversation, named) => forget(shared, &conversation, named),
            Job::Flush(done) => done.send(()).unwrap_or(()), // Nobody waits any more: fine.
        }
    }
}

fn write_object(shared: &Shared, id: BlockId, object: &Object) {
    let Some(store) = &shared.store else { return };
    match store.put_object(shared.fingerprint, id, object) {
        Ok(bytes) => {
            Counters::add(&shared.counters.written_bytes, bytes);
            let file_bytes = object.file_bytes();
            shared.objects().insert(id, Known { file_bytes, on_disk: true });
        }
        Err(error) => {
            Counters::add(&shared.counters.write_errors, 1);
            warn!(%id, %error, "object not written");
        }
    }
    // Also after an error: the disk will not take it, and memory must not grow without bound.
    shared.pool().mark_saved(&id);
}

fn write_record(shared: &Shared, record: &SlotRecord) {
    let Some(store) = &shared.store else { return };
    match store.put_slot(shared.fingerprint, record) {
        Ok(bytes) => {
            Counters::add(&shared.counters.written_bytes, bytes);
            debug!(conversation = %record.conversation, tokens = record.tokens.len(), "saved");
        }
        Err(error) => {
            Counters::add(&shared.counters.write_errors, 1);
            warn!(conversation = %record.conversation, %error, "slot file not written");
        }
    }
}

/// Removes what the conversation alone named, from memory and then from disk. What others name
/// stays: equal beginnings have equal objects.
fn forget(shared: &Shared, conversation: &ConversationId, mut named: Vec<BlockId>) {
    let store = shared.store.as_ref();
    if let Some(Ok(record)) = store.map(|store| store.get_slot(shared.fingerprint, conversation)) {
        named.extend(record.objects().map(|(id, _)| id));
    }
    let _nobody_reads = lock(&shared.removal);
    {
        // As long as this is held, no record can begin to name what is about to go.
        let records = shared.records();
        let spared = records.objects();
        named.retain(|id| !spared.contains(id));
        for id in &named {
            shared.pool().remove(id);
            shared.objects().remove(id);
        }
    }
    let named = BTreeSet::from_iter(named);
    let forgotten = store.map(|store| store.forget(shared.fingerprint, conversation, &named));
    if let Some(Err(error)) = forgotten {
        warn!(%conversation, %error, "not everything was removed");
    }
}
