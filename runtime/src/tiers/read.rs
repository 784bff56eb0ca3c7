//! Reads the objects of a plan and assembles them, verified, in the order of positions.
//!
//! - A group is a few adjacent blocks. Where the state's layout allows, they are joined into one
//!   state while they are read: the verified bytes are still in the processor's cache, and the
//!   import walks the cells once.
//! - A partial snapshot comes last. Where a block before it is missing, a nearer one is taken.
//! - A block that is away and cannot be read stays away until the conversation's next turn, which computes
//!   it again. If another block cannot be read, and none takes its place, the turn computes the tokens from it on.
//! - A piece may hold more tokens than the prompt wants: the tokens after the last equal one are
//!   not used.
//! - Objects read from disk do not enter the memory tier: the system's page cache has them.

use std::ops::Range;

use hob_slots::content::Import;
use hob_slots::format::ObjectKind;
use hob_slots::store::Miss;
use hob_slots::{BLOCK_TOKENS, Block, Payload};

use super::find::Finder;
use super::plan::{Plan, Sought};
use super::recorded::block_like;
use crate::backend::JoinedState;
use crate::map::{Origin, Origins};
use crate::miss::MissReason;

/// A verified state, and which of its tokens the prompt wants.
#[derive(Debug)]
pub struct Piece {
    pub part: Part,
    /// Positions in the state.
    pub held: Range<usize>,
    /// Positions that the prompt wants; within `held`.
    pub wanted: Range<usize>,
    /// One origin for each wanted token.
    pub origins: Origins,
    pub state: PieceState,
}

/// What of a sequence a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The cells of a range.
    Cells,
    /// What belongs beside the cells up to its end, and replaces those after it.
    Rest,
    /// The whole sequence.
    Whole,
}

/// A state as llama.cpp imports it.
#[derive(Debug)]
pub enum PieceState {
    /// One object.
    Single(Payload),
    /// Several blocks, joined.
    Joined(JoinedState),
}

impl PieceState {
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Single(payload) => payload,
            Self::Joined(joined) => joined.as_bytes(),
        }
    }
}

/// A part of a plan, while it is read.
#[derive(Debug)]
pub(super) struct Group {
    pub number: usize,
    /// Blocks of the plan that are still to be read.
    unread: Range<usize>,
    /// No group follows.
    pub last: bool,
    /// Where the tokens that were found end, once the last object was read.
    reached: usize,
    /// Why a recorded object is missing.
    pub miss: Option<MissReason>,
    pub pieces: Vec<Piece>,
    joining: Option<Joining>,
    buffer: Vec<u8>,
}

/// A joined piece that still grows.
#[derive(Debug)]
struct Joining {
    held: Range<usize>,
    wanted: Range<usize>,
    origins: Origins,
    state: JoinedState,
}

/// The verified state of one block, and which of its tokens the prompt wants.
struct Found {
    held: Range<usize>,
    wanted: Range<usize>,
    payload: Payload,
    origin: Origin,
}

impl Group {
    /// The number of groups in a plan.
    pub fn count(plan: &Plan) -> usize {
        match &plan.sought {
            Sought::Blocks(blocks) => blocks.len().div_ceil(plan.group_blocks),
            Sought::Moved(import) => import.blocks.len().div_ceil(plan.group_blocks),
            Sought::Snapshots(snapshots) => usize::from(!snapshots.is_empty()),
        }
    }

    /// An unread group, with a buffer to read into.
    pub fn new(plan: &Plan, number: usize, buffer: Vec<u8>) -> Self {
        let of_blocks = |count: usize| {
            let start = number * plan.group_blocks;
            start..count.min(start + plan.group_blocks)
        };
        let unread = match &plan.sought {
            Sought::Blocks(blocks) => of_blocks(blocks.len()),
            Sought::Moved(import) => of_blocks(import.blocks.len()),
            Sought::Snapshots(_) => 0..1,
        };
        let last = number + 1 == Self::count(plan);
        Self {
            number,
            unread,
            last,
            reached: plan.limit,
            miss: None,
            pieces: Vec::new(),
            joining: None,
            buffer,
        }
    }

    pub fn is_read(&self) -> bool {
        self.unread.is_empty()
    }

    /// Reads the next object; ends the group when it is missing.
    pub fn read_next(&mut self, finder: &mut Finder<'_>, plan: &Plan) {
        match &plan.sought {
            Sought::Blocks(blocks) => {
                let index = self.unread.start;
                self.unread.start += 1;
                let block = &blocks[index];
                let at = block.range.start.max(plan.hot);
                match self.read_block(finder, plan, index) {
                    Ok(()) => {}
                    Err(_) if plan.is_away(block) => {} // It stays away; the finder counts it.
                    Err(reason) => {
                        let reached = self.read_recorded(finder, plan, at, block);
                        self.end(plan, reached.unwrap_or(at), &reason);
                    }
                }
            }
            Sought::Moved(import) => {
                let index = self.unread.start;
                self.unread.start += 1;
                if let Err((at, reason)) = self.read_moved(finder, import, index) {
                    finder.shared.contents.lose(&import.blocks[index].0);
                    self.end(plan, at, &reason);
                }
            }
            Sought::Snapshots(_) => self.read_snapshot(finder, plan),
        }
        if self.is_read() {
            self.seal(finder);
            if self.last {
                self.read_partial(finder, plan);
            }
        }
    }

    /// The unused buffer, for the next group.
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
        let (payload, origin) = finder.find(&block.id, ObjectKind::Block)?;
        let wanted = if plan.is_away(block) {
            block.range.clone()
        } else {
            block.range.start.max(plan.hot)..block.range.end.min(plan.limit)
        };
        // Cells of this block and of the group's unread ones.
        let group = &blocks[index..self.unread.end.max(index + 1)];
        let room = group.iter().map(|block| block.range.len()).sum();
        self.add(finder, Found { held: block.range.clone(), wanted, payload, origin }, room);
        Ok(())
    }

    /// Reads a block of another place, and moves those of its cells that are wanted. `Err`: where they would
    /// begin, and why there are none.
    fn read_moved(
        &mut self,
        finder: &mut Finder<'_>,
        import: &Import,
        index: usize,
    ) -> Result<(), (usize, Miss)> {
        let (id, block) = &import.blocks[index];
        let from = import.from();
        let wanted = block.start.max(from.start)..block.end.min(from.end);
        let start = import.at.start + wanted.start - from.start;
        let at = start..start + wanted.len();
        let (payload, origin) = finder.find(id, ObjectKind::Block).map_err(|miss| (start, miss))?;
        let moved = finder.shared.model.move_state(&payload, &wanted, import.delta);
        let moved = moved.ok_or((start, Miss::Absent))?;
        finder.reuse(payload);
        let room = at.len() + import.at.end.saturating_sub(at.end).min(BLOCK_TOKENS);
        let payload = Payload::from(moved);
        self.add(finder, Found { held: at.clone(), wanted: at, payload, origin }, room);
        Ok(())
    }

    /// Reads the record's block in place of the missing one, or the one in which a branch ended.
    /// They begin at the same position, because all before it is equal. Returns where the wanted
    /// tokens end.
    fn read_recorded(
        &mut self,
        finder: &mut Finder<'_>,
        plan: &Plan,
        at: usize,
        ours: &Block,
    ) -> Option<usize> {
        let recorded = plan.record.as_ref().and_then(|record| block_like(record, ours));
        let recorded = recorded.filter(|(id, _)| *id != ours.id);
        let recorded = recorded.map(|(id, held)| (held.end.min(plan.expected), id, held));
        let branches = plan.branch_ends(ours.range.start).map(|(id, held)| (held.end, id, held));
        let mut known: Vec<_> = recorded.into_iter().chain(branches).collect();
        known.sort_by_key(|(end, ..)| std::cmp::Reverse(*end));
        for (end, id, held) in known {
            let end = end.min(plan.limit);
            if end <= at {
                return None;
            }
            if let Ok((payload, origin)) = finder.find(&id, ObjectKind::Block) {
                let room = held.len();
                self.add(finder, Found { held, wanted: at..end, payload, origin }, room);
                return Some(end);
            }
        }
        None
    }

    /// Ends the plan at `reached`: the next object is missing.
    fn end(&mut self, plan: &Plan, reached: usize, reason: &Miss) {
        if reached < plan.expected.min(plan.limit) {
            let reason = reason.to_string();
            self.miss = Some(MissReason::Unusable { from: reached, reason });
        }
        self.unread.start = self.unread.end;
        self.last = true;
        self.reached = reached;
    }

    /// Reads the furthest partial snapshot within the tokens whose blocks were found.
    fn read_partial(&mut self, finder: &mut Finder<'_>, plan: &Plan) {
        for snapshot in plan.partials.iter().rev() {
            let position = snapshot.position as usize;
            if position > self.reached {
                continue;
            }
            match finder.find(&snapshot.id, ObjectKind::Partial) {
                Ok((payload, _)) => {
                    let (held, wanted) = (0..position, position..position);
                    let (origins, state) = (Origins::default(), PieceState::Single(payload));
                    self.pieces.push(Piece { part: Part::Rest, held, wanted, origins, state });
                    return;
                }
                Err(reason) => {
                    let reason = format!("the snapshot at token {position}: {reason}");
                    self.miss = Some(MissReason::Unusable { from: plan.hot, reason });
                }
            }
        }
    }

    fn read_snapshot(&mut self, finder: &mut Finder<'_>, plan: &Plan) {
        self.unread.start = self.unread.end;
        let Sought::Snapshots(snapshots) = &plan.sought else { return };
        for snapshot in snapshots.iter().rev() {
            let position = snapshot.position as usize;
            match finder.find(&snapshot.id, ObjectKind::Snapshot) {
                Ok((payload, origin)) => {
                    let origins = Origins::of(position, origin);
                    let (held, wanted) = (0..position, 0..position);
                    let state = PieceState::Single(payload);
                    self.pieces.push(Piece { part: Part::Whole, held, wanted, origins, state });
                    return;
                }
                Err(reason) => {
                    let reason = format!("the snapshot at token {position}: {reason}");
                    self.miss = Some(MissReason::Unusable { from: plan.hot, reason });
                }
            }
        }
    }

    /// Joins a state with the one before it, or begins a piece with it. `room`: its cells and those of the blocks that
    /// may be joined with it.
    fn add(&mut self, finder: &mut Finder<'_>, found: Found, room: usize) {
        let Found { held, wanted, payload, origin } = found;
        let origins = Origins::of(wanted.len(), origin);
        if let Some(joining) = &mut self.joining
            && joining.held.end == held.start
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
            let state = PieceState::Single(payload);
            self.pieces.push(Piece { part: Part::Cells, held, wanted, origins, state });
        }
    }

    /// Turns the joined state into a piece.
    fn seal(&mut self, finder: &Finder<'_>) {
        if let Some(Joining { held, wanted, origins, mut state }) = self.joining.take() {
            finder.shared.model.seal_state(&mut state);
            let state = PieceState::Joined(state);
            self.pieces.push(Piece { part: Part::Cells, held, wanted, origins, state });
        }
    }
}
