//! The naive model: the saved states of a conversation that may be read now.

use hob_slots::SlotRecord;

#[derive(Clone, Debug)]
pub struct Remembered {
    /// The current state.
    pub now: Option<SlotRecord>,
    /// States that may still be on disk after the crashes since the last write.
    possible: Vec<Option<SlotRecord>>,
    /// The state that the interrupted step would have left.
    interrupted: Option<Option<SlotRecord>>,
    /// Whether all objects of the current state must exist.
    pub whole: bool,
}

impl Default for Remembered {
    fn default() -> Self {
        Self { now: None, possible: vec![None], interrupted: None, whole: true }
    }
}

impl Remembered {
    /// A step succeeded and left this.
    pub fn is_now(&mut self, record: Option<SlotRecord>) {
        let possible = vec![record.clone()];
        *self = Self { now: record, possible, interrupted: None, whole: true };
    }

    /// A sweep succeeded: older files of the conversation are gone.
    pub fn is_settled(&mut self) {
        self.possible = vec![self.now.clone()];
    }

    /// A step was interrupted that would have left this.
    pub fn may_become(&mut self, record: Option<SlotRecord>) {
        self.possible.push(record.clone());
        self.interrupted = Some(record);
    }

    /// Read after a crash.
    pub fn reads(&mut self, read: Option<SlotRecord>, what: &str) {
        assert!(self.possible.contains(&read), "{what} reads {read:?} of {:?}", self.possible);
        self.whole = match self.interrupted.take() {
            Some(interrupted) if interrupted == read => true,
            // An older state may have lost its objects since.
            _ => self.whole && read == self.now,
        };
        self.now = read;
    }
}
