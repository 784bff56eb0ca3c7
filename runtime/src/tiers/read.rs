//! Finds what a plan names and brings it together, verified, in the order of positions.
//!
//! - A group is a few adjacent blocks. Where the memory's layout allows it they become one state
//!   while they are read: the verified bytes are still in the processor's cache then, and bringing
//!   the state in walks the cells once.
//! - A piece may hold more than is wanted of it: the tokens after the last equal one are not taken.
//! - What was read only to become hot does not stay in memory a second time: the disk's own cache
//!   has it.

use std::ops::Range;

use hob_slots::format::ObjectKind;
use hob_slots::store::Miss;
use hob_slots::{BlockId, Payload};

use super::find::{Finder, Place};
use super::plan::{Plan, Sought};
use crate::backend::JoinedState;
use crate::map::Origins;
use crate::miss::MissReason;

/// Blocks that are read and brought in together, at most: 1.5 MB of a model of half a billion weights.
pub(super) const GROUP_BLOCKS: usize = 2;

/// And their bytes, unless one block has more: running answers wait while they are brought in.
const GROUP_BYTES: u64 = 16 << 20;

/// A verified state and what to take of it.
#[derive(Debug)]
pub struct Piece {
    /// The positions that the state holds.
    pub held: Range<usize>,
    /// Those that the prompt wants.
    pub wanted: Range<usize>,
    /// Where each of the wanted ones came from.
    pub origins: Origins,
    /// The state.
    pub state: PieceState,
}

/// The bytes for llama.cpp.
#[derive(Debug)]
pub enum PieceState {
    /// As they were kept.
    Kept(Payload),
    /// Of several blocks.
    Joined(JoinedState),
}

impl PieceState {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Kept(payload) => payload,
            Self::Joined(joined) => joined.as_bytes(),
        }
    }
}

/// How many blocks of about `block_bytes` make a group; 0: it is not known how long they are.
pub(super) fn group_blocks(block_bytes: u64) -> usize {
    let fitting = GROUP_BYTES.checked_div(block_bytes).unwrap_or(u64::MAX);
    usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, GROUP_BLOCKS)
}

/// Some of what a plan names, while it is read.
#[derive(Debug)]
pub(super) struct Group {
    /// Which one.
    pub number: usize,
    /// The blocks of the plan that are not read yet.
    left: Range<usize>,
    /// Nothing is to be read after this group.
    pub last: bool,
    /// Why something is missing that should be there.
    pub miss: Option<MissReason>,
    pub pieces: Vec<Piece>,
    joining: Option<Joining>,
    buffer: Vec<u8>,
}

/// A piece that grows.
#[derive(Debug)]
struct Joining {
    held: Range<usize>,
    wanted: Range<usize>,
    origins: Origins,
    state: JoinedState,
}

impl Group {
    /// How many groups a plan has.
    pub fn count(plan: &Plan) -> usize {
        match &plan.sought {
            Sought::Blocks(blocks) => blocks.len().div_ceil(plan.group_blocks),
            Sought::Snapshots(snapshots) => usize::from(!snapshots.is_empty()),
        }
    }

    /// A group of which nothing is read, with a buffer to read into.
    pub fn new(plan: &Plan, number: usize, buffer: Vec<u8>) -> Self {
        let left = match &plan.sought {
            Sought::Blocks(blocks) => {
                let start = number * plan.group_blocks;
                start..blocks.len().min(start + plan.group_blocks)
            }
            Sought::Snapshots(_) => 0..1,
        };
        let last = number + 1 == Self::count(plan);
        Self { number, left, last, miss: None, pieces: Vec::new(), joining: None, buffer }
    }

    /// Whether anything is left to read.
    pub fn is_read(&self) -> bool {
        self.left.is_empty()
    }

    /// Reads the next object.
    pub fn read_next(&mut self, finder: &mut Finder<'_>, plan: &Plan) {
        match &plan.sought {
            Sought::Blocks(blocks) => {
                let index = self.left.start;
                self.left.start += 1;
                let block = &blocks[index];
                let at = block.range.start.max(plan.hot);
                if let Err(reason) = self.read_block(finder, plan, index) {
                    let reached = self.read_recorded(finder, plan, at, block.id);
                    self.end(plan, reached.unwrap_or(at), &reason);
                }
            }
            Sought::Snapshots(_) => self.read_snapshot(finder, plan),
        }
        if self.is_read() {
            self.seal(finder);
        }
    }

    /// The buffer that is left, for the next group.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    fn read_block(
        &mut self,
        finder: &mut Finder<'_>,
        plan: &Plan,
        index: usize,
    ) -> Result<(), Miss> {
        let Sought::Blocks(blocks) = &plan.sought else { return Ok(()) };
        let block = &blocks[index];
        let (payload, place) = finder.find(&block.id, ObjectKind::Block, plan.used)?;
        let wanted = block.range.start.max(plan.hot)..block.range.end.min(plan.limit);
        // The cells of the blocks that are to come.
        let room = blocks[self.left.end - 1].range.end - block.range.start;
        self.take(finder, block.range.clone(), wanted, payload, place, room);
        Ok(())
    }

    /// The record's block begins where ours does, because all before it is equal.
    fn read_recorded(
        &mut self,
        finder: &mut Finder<'_>,
        plan: &Plan,
        at: usize,
        ours: BlockId,
    ) -> Option<usize> {
        let (id, held) = plan.recorded_block(at).filter(|(id, _)| *id != ours)?;
        let end = held.end.min(plan.expected).min(plan.limit);
        if end <= at {
            return None;
        }
        let (payload, place) = finder.find(&id, ObjectKind::Block, plan.used).ok()?;
        let room = held.len();
        self.take(finder, held, at..end, payload, place, room);
        Some(end)
    }

    /// Nothing after `reached` is there.
    fn end(&mut self, plan: &Plan, reached: usize, reason: &Miss) {
        if reached < plan.expected.min(plan.limit) {
            let reason = reason.to_string();
            self.miss = Some(MissReason::Unusable { from: reached, reason });
        }
        self.left.start = self.left.end;
        self.last = true;
    }

    fn read_snapshot(&mut self, finder: &mut Finder<'_>, plan: &Plan) {
        self.left.start = self.left.end;
        let Sought::Snapshots(snapshots) = &plan.sought else { return };
        for snapshot in snapshots.iter().rev() {
            let position = snapshot.position as usize;
            match finder.find(&snapshot.id, ObjectKind::Snapshot, plan.used) {
                Ok((payload, place)) => {
                    let origins = Origins::of(position, place.origin());
                    let (held, wanted) = (0..position, 0..position);
                    let state = PieceState::Kept(payload);
                    self.pieces.push(Piece { held, wanted, origins, state });
                    return;
                }
                Err(reason) => {
                    let reason = format!("the snapshot at token {position}: {reason}");
                    self.miss = Some(MissReason::Unusable { from: plan.hot, reason });
                }
            }
        }
    }

    fn take(
        &mut self,
        finder: &mut Finder<'_>,
        held: Range<usize>,
        wanted: Range<usize>,
        payload: Payload,
        place: Place,
        room: usize,
    ) {
        let origins = Origins::of(wanted.len(), place.origin());
        if let Some(joining) = &mut self.joining
            && finder.shared.model.append_state(&mut joining.state, &payload)
        {
            joining.held.end = held.end;
            joining.wanted.end = wanted.end;
            joining.origins.append(&origins);
            return finder.reuse(payload);
        }
        self.seal(finder);
        let mut state = JoinedState::with_room(room, self.take_buffer());
        if finder.shared.model.append_state(&mut state, &payload) {
            self.joining = Some(Joining { held, wanted, origins, state });
            finder.reuse(payload);
        } else {
            self.buffer = state.into_bytes();
            let state = PieceState::Kept(payload);
            self.pieces.push(Piece { held, wanted, origins, state });
        }
    }

    /// What was joined so far is a piece.
    fn seal(&mut self, finder: &Finder<'_>) {
        if let Some(Joining { held, wanted, origins, mut state }) = self.joining.take() {
            finder.shared.model.seal_state(&mut state);
            let state = PieceState::Joined(state);
            self.pieces.push(Piece { held, wanted, origins, state });
        }
    }
}
