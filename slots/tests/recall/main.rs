//! What comes back of long conversations.

mod blocks;
mod corpus;
mod dialogues;
mod measure;
mod properties;

use hob_slots::recall::Residence;

/// All others are absent.
fn resident_where(resident: impl Fn(usize) -> bool) -> impl Fn(usize) -> Residence {
    move |block| if resident(block) { Residence::Resident } else { Residence::Absent }
}
