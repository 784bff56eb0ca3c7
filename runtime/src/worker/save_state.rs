//! How much of a slot's timeline the tiers have, and what the conversation's next record says.
//!
//! - Tokens before `exported` are in the tiers; `exported` is a block's end.
//! - The slot passes in what a method needs of the timeline.

use hob_slots::branches::MAX_SNAPSHOTS;
use hob_slots::format::SnapshotRef;
use hob_slots::{Block, Payload, TtlClass};

use crate::turn::Retention;

#[derive(Default)]
pub(super) struct SaveState {
    pub exported: usize,
    /// Start of the first block that could not be exported: export stops here until a turn ends.
    pub export_end: Option<usize>,
    record: RecordState,
    /// Snapshots of the timeline in the tiers, by position, ascending. Empty where memory is plain.
    pub snapshots: Vec<SnapshotRef>,
    /// From where "regenerate" continues.
    pub held: Option<Held>,
    /// Turns since the last record.
    pub turns: u32,
    /// As the last turn asked for it, with the class of an earlier one where it asked for none.
    pub keep: Retention,
    /// The KV of the owner must not reach the disk.
    pub in_memory: bool,
}

/// What is not exported in blocks, as it was within the slot's timeline. It goes to the tiers when the conversation
/// leaves the slot, and when words that are typed ahead change.
#[derive(Clone)]
pub(super) struct Held {
    pub position: usize,
    pub rest: Payload,
}

/// Whether the conversation's record covers the slot's timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RecordState {
    /// It does, and may cover more; or there is nothing to record.
    #[default]
    Current,
    /// The timeline has changed since the last record. `retried`: a record failed because the store had lost blocks
    /// that it names, and the engine exported them a second time.
    Stale { retried: bool },
    /// The cells hold a speculative prefill, which is neither exported nor recorded.
    Speculative,
}

impl SaveState {
    /// Another owner is pinned to the slot: the tiers have nothing of its timeline, and it has changed nothing.
    pub fn pinned(&mut self) {
        self.record = RecordState::Current;
        self.exported = 0;
        self.in_memory = false;
        self.snapshots.clear();
        self.held = None;
        self.turns = 0;
    }

    /// The owner has left the slot, and its cells were dropped.
    pub fn unpinned(&mut self) {
        self.record = RecordState::Current;
    }

    pub fn is_speculative(&self) -> bool {
        self.record == RecordState::Speculative
    }

    /// Whether the timeline has changed since the last record.
    pub fn is_stale(&self) -> bool {
        matches!(self.record, RecordState::Stale { .. })
    }

    fn outdate_record(&mut self) {
        if self.record == RecordState::Current {
            self.record = RecordState::Stale { retried: false };
        }
    }

    /// A turn asks for `keep`. A class that an earlier turn asked for may not be recorded yet: it
    /// stays if the turn `continues` the same conversation here.
    pub fn keep_as(&mut self, keep: &Retention, continues: bool) {
        let before = self.keep.class.filter(|_| continues);
        self.keep = Retention { class: keep.class.or(before), ..keep.clone() };
    }

    /// The next record has this class, also when nothing else has changed.
    pub fn reclass(&mut self, class: TtlClass) {
        self.keep.class = Some(class);
        self.outdate_record();
    }

    /// Where the KV of the owner may go from here on. What was in memory alone is exported again
    /// when it may go to disk.
    pub fn set_in_memory(&mut self, in_memory: bool) {
        if self.in_memory && !in_memory {
            self.exported = 0;
        }
        self.in_memory = in_memory;
    }

    /// `speculates`: the turn is a speculation whose text is not stored.
    pub fn turn_begins(&mut self, speculates: bool) {
        if speculates {
            self.record = RecordState::Speculative;
        } else if self.is_speculative() {
            self.record = RecordState::Current;
        }
    }

    /// `adds_nothing`: the turn added too little for a record that covered the timeline before it to be replaced.
    pub fn turn_ended(&mut self, adds_nothing: bool) {
        self.export_end = None;
        self.record = match self.record {
            RecordState::Speculative => RecordState::Speculative,
            RecordState::Current if adds_nothing => RecordState::Current,
            RecordState::Current | RecordState::Stale { .. } => {
                RecordState::Stale { retried: false }
            }
        };
    }

    /// The turn had computed tokens when it gave up its cells; it continues later.
    pub fn turn_preempted(&mut self) {
        self.record = RecordState::Stale { retried: false };
    }

    /// The next record names a snapshot that the last one does not.
    pub fn snapshot_added(&mut self) {
        self.outdate_record();
    }

    /// The record has what is stored: that of a speculation goes on without the speculated tokens.
    pub fn record_written(&mut self) {
        if !self.is_speculative() {
            self.record = RecordState::Current;
        }
    }

    /// The tiers had lost objects that the record names, with another conversation that was
    /// deleted; `lost`: where the first lost block starts. They are exported once more. If they are
    /// lost again (a full disk and too little memory), the tokens before the lost block are recorded;
    /// where a snapshot was lost, nothing is.
    pub fn record_refused(&mut self, lost: Option<usize>) {
        if self.is_speculative() {
            return; // The record before stays.
        }
        let retried = self.record == RecordState::Stale { retried: true };
        if retried {
            self.export_end = lost;
        } else {
            self.exported = lost.unwrap_or(self.exported);
        }
        let gives_up = retried && lost.is_none();
        self.record =
            if gives_up { RecordState::Current } else { RecordState::Stale { retried: true } };
    }

    /// The timeline is cut back to `len` tokens. `whole`: the whole blocks that it has left.
    pub fn cut_back(&mut self, len: usize, whole: &[Block]) {
        let exported = whole.partition_point(|block| block.range.end <= self.exported);
        self.exported = exported.checked_sub(1).map_or(0, |last| whole[last].range.end);
        self.export_end = None;
        self.snapshots.retain(|snapshot| snapshot.position as usize <= len);
        self.held.take_if(|held| held.position > len);
        if len == 0 && self.is_stale() {
            self.record = RecordState::Current; // There is nothing left to record.
        }
    }

    /// Of more than [`MAX_SNAPSHOTS`] the last ones stay.
    pub fn add_snapshot(&mut self, snapshot: SnapshotRef) {
        self.snapshots.push(snapshot);
        self.snapshots.sort_by_key(|snapshot| snapshot.position);
        let surplus = self.snapshots.len().saturating_sub(MAX_SNAPSHOTS);
        self.snapshots.drain(..surplus);
    }

    /// Snapshots within the first `len` tokens. A turn that has not computed its whole prompt names
    /// the record's snapshots beyond its last token too.
    pub fn snapshots_within(&self, len: usize) -> Vec<SnapshotRef> {
        let within = self.snapshots.iter().filter(|snapshot| snapshot.position as usize <= len);
        within.copied().collect()
    }

    /// The furthest snapshot within the first `len` tokens. After a restore, the record's later snapshots reach
    /// beyond the timeline.
    pub fn last_snapshot_within(&self, len: usize) -> Option<&SnapshotRef> {
        self.snapshots.iter().rfind(|snapshot| snapshot.position as usize <= len)
    }
}
