//! The naive model: what was ever saved of a conversation and may be read now.

use hob_slots::SlotRecord;

/// What is remembered of one conversation.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// What is read, until something happens to it.
    pub now: Option<SlotRecord>,
    /// Everything that may still lie on the disk after the crashes since it was last written.
    possible: Vec<Option<SlotRecord>>,
    /// What the step would have left that a crash has just interrupted.
    interrupted: Option<Option<SlotRecord>>,
    /// Whether all objects of what is read must be there.
    pub whole: bool,
}

impl Default for Remembered {
    fn default() -> Self {
        Self { now: None, possible: vec![None], interrupted: None, whole: true }
    }
}

impl Remembered {
    /// A step went through and left this.
    pub fn is_now(&mut self, record: Option<SlotRecord>) {
        let possible = vec![record.clone()];
        *self = Self { now: record, possible, interrupted: None, whole: true };
    }

    /// A sweep went through: older files of the same conversation are gone.
    pub fn is_settled(&mut self) {
        self.possible = vec![self.now.clone()];
    }

    /// A step was interrupted that would have left this.
    pub fn may_become(&mut self, record: Option<SlotRecord>) {
        self.possible.push(record.clone());
        self.interrupted = Some(record);
    }

    /// It was read after a crash.
    pub fn reads(&mut self, read: Option<SlotRecord>, what: &str) {
        assert!(self.possible.contains(&read), "{what} reads {read:?} of {:?}", self.possible);
        self.whole = match self.interrupted.take() {
            Some(interrupted) if interrupted == read => true,
            // What comes back from further ago may have lost its objects since.
            _ => self.whole && read == self.now,
        };
        self.now = read;
    }
}
