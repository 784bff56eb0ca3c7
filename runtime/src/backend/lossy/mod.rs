//! Rounds the numbers of a block's state, and makes a state of them again. Runs off the engine's thread.
//!
//! - The state has the layout that [`state`](super::state) knows: what it does not know is not rounded.
//! - What is made of rounded bytes is, byte for byte, always the same state. It has the cells, positions and types of
//!   the state that was rounded; only its numbers differ.
//! - 8 bits: groups of 32 along each row, each with a factor, as ggml's `q8_0`.
//! - 4 bits, as KIVI lays them out: K has few channels of large numbers, so its groups are 64 cells of one channel; V
//!   has none, so its groups are 64 numbers of a row. Each has its least number and a step.
//! - Memory is taken once all lengths agree with the bytes that are there.
//!
//! `docs/FORMAT.md` has the byte table.

mod groups;
mod halves;

use hob_slots::Lossy;

use super::numbers::{NumberType, write_f16};
use super::state::{PlainState, Section, with_heads};
use groups::Groups;

const MAGIC: &[u8; 8] = b"HOBLSY\0\x01";
const HEADER: usize = 16;

/// Why a block keeps its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrounded {
    /// A layout or a type of numbers that this version does not know.
    Layout,
    /// A number is infinite or none.
    Infinite,
    /// Rounding saves less than a quarter: the state is short, or has few bits already.
    SavesLittle,
}

/// Whether the bytes were made by rounding. No state of llama.cpp begins so.
pub fn is_rounded(payload: &[u8]) -> bool {
    payload.starts_with(MAGIC)
}

/// The header of rounded bytes with `heads` bytes of heads.
pub(super) fn header(lossy: Lossy, heads: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8] = lossy.code();
    header[12..].copy_from_slice(&u32::try_from(heads).expect("heads are short").to_le_bytes());
    header
}

/// How the bytes were rounded, their heads, and what follows them.
pub(super) fn parts(rounded: &[u8]) -> Option<(Lossy, &[u8], &[u8])> {
    let (header, rest) = rounded.split_first_chunk::<HEADER>()?;
    let lossy = Lossy::from_code(header[8])?;
    if !is_rounded(header) || header[9..12] != [0; 3] {
        return None;
    }
    let heads = u32::from_le_bytes(*header.last_chunk().expect("a header is longer"));
    let (heads, groups) = rest.split_at_checked(usize::try_from(heads).ok()?)?;
    Some((lossy, heads, groups))
}

/// Whether rounding saves too little: less than a quarter.
pub(super) fn saves_little(rounded: usize, state: usize) -> bool {
    4 * rounded > 3 * state
}

/// The rounded state.
///
/// # Errors
/// Why the state stays as it is.
pub fn rounded(state: &[u8], lossy: Lossy) -> Result<Vec<u8>, Unrounded> {
    let plain = PlainState::parse(state).ok_or(Unrounded::Layout)?;
    let heads = plain.heads();
    let sections: Vec<Section> = plain.typed_rows().collect();
    let groups = groups_bytes(lossy, plain.cells(), &sections).ok_or(Unrounded::Layout)?;
    let bytes = HEADER + heads.len() + groups;
    if saves_little(bytes, state.len()) {
        return Err(Unrounded::SavesLittle);
    }
    let mut rounded = Vec::with_capacity(bytes);
    rounded.extend_from_slice(&header(lossy, heads.len()));
    rounded.extend_from_slice(&heads);
    let (mut row, mut numbers) = (Vec::new(), Vec::new());
    for (index, section) in sections.iter().enumerate() {
        let number_type = NumberType::of(section.number_type).ok_or(Unrounded::Layout)?;
        numbers.clear();
        for bytes in state[section.rows.clone()].chunks_exact(section.row_bytes) {
            number_type.read(bytes, &mut row);
            numbers.extend_from_slice(&row);
        }
        if !numbers.iter().all(|number| number.abs() <= groups::MAX) {
            return Err(Unrounded::Infinite);
        }
        Groups::of(lossy, is_k(index, &sections)).write(&numbers, row.len(), &mut rounded);
    }
    debug_assert_eq!(rounded.len(), bytes);
    Ok(rounded)
}

/// The state that was rounded, written over `buffer`.
pub fn state_of(rounded: &[u8], buffer: Vec<u8>) -> Option<Vec<u8>> {
    let (lossy, heads, mut groups) = parts(rounded)?;
    let fits = |cells: usize, sections: &[Section]| {
        groups_bytes(lossy, cells, sections) == Some(groups.len())
    };
    let (mut state, cells, sections) = with_heads(heads, buffer, fits)?;
    let mut row = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let number_type = NumberType::of(section.number_type)?;
        let numbers = number_type.count(section.row_bytes)?;
        row.clear();
        row.resize(numbers, 0.0);
        let of_section = Groups::of(lossy, is_k(index, &sections));
        let (own, rest) = groups.split_at(of_section.bytes(cells, numbers));
        groups = rest;
        if (of_section, number_type) == (Groups::Bytes, NumberType::F16) {
            halves::write(own, numbers, &mut state[section.rows.clone()]);
            continue;
        }
        let mut rows = state[section.rows.clone()].chunks_exact_mut(section.row_bytes);
        of_section.read(own, cells, &mut row, |row| {
            let bytes = rows.next().expect("there is a row for each cell");
            match number_type {
                NumberType::F16 => write_f16(row, bytes),
                _ => number_type.write(row, bytes),
            }
        });
    }
    Some(state)
}

/// The sections of K come first.
fn is_k(index: usize, sections: &[Section]) -> bool {
    index < sections.len() / 2
}

/// Bytes of all groups; `None` where a type is unknown.
fn groups_bytes(lossy: Lossy, cells: usize, sections: &[Section]) -> Option<usize> {
    let mut bytes = 0_usize;
    for (index, section) in sections.iter().enumerate() {
        let numbers = NumberType::of(section.number_type)?.count(section.row_bytes)?;
        bytes =
            bytes.checked_add(Groups::of(lossy, is_k(index, sections)).bytes(cells, numbers))?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
